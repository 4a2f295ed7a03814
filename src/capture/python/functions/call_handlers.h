// The handlers that rows of C functions name. (What instructions do is in interpreter/operations.h.) They are written
// in tracer/calls, where a file has the handlers of one subject; CallHandler in functions.h says what a handler
// returns.
#pragma once

#include "capture/python/functions/functions.h"

namespace vesta::capture::handlers {

using Result = std::optional<PyObject*>;

// attribute_functions.cpp
Result get_attribute(Trace& t, const Call& c);
Result has_attribute(Trace& t, const Call& c);
Result set_attribute(Trace& t, const Call& c);
Result delete_attribute(Trace& t, const Call& c);
Result object_get_attribute(Trace& t, const Call& c);
Result object_set_attribute(Trace& t, const Call& c);
Result object_delete_attribute(Trace& t, const Call& c);
Result vars(Trace& t, const Call& c);
// object_functions.cpp
Result is_instance(Trace& t, const Call& c);
Result address(Trace& t, const Call& c);
Result hash(Trace& t, const Call& c);
Result build_class(Trace& t, const Call& c);
// iteration.cpp
Result iterate(Trace& t, const Call& c);
Result advance(Trace& t, const Call& c);
Result length(Trace& t, const Call& c);
// dict_methods.cpp
Result dict_get(Trace& t, const Call& c);
Result dict_pop(Trace& t, const Call& c);
Result dict_set_default(Trace& t, const Call& c);
Result dict_update(Trace& t, const Call& c);
// context_variables.cpp
Result get_context_variable(Trace& t, const Call& c);
Result set_context_variable(Trace& t, const Call& c);
Result reset_context_variable(Trace& t, const Call& c);
// tensor_constructors.cpp
Result tensor_new(Trace& t, const Call& c);
Result new_tensor(Trace& t, const Call& c);
Result tensor_from_data(Trace& t, const Call& c);
// torch_functions.cpp
Result torch_setting(Trace& t, const Call& c);
Result autograd_apply(Trace& t, const Call& c);
Result require_grad(Trace& t, const Call& c);
// backward_calls.cpp
Result make_gradients(Trace& t, const Call& c);
Result run_backward(Trace& t, const Call& c);
Result register_hook(Trace& t, const Call& c);
Result register_node_hook(Trace& t, const Call& c);
Result retain_gradient(Trace& t, const Call& c);
// transforms.cpp
Result wrap_for_transform(Trace& t, const Call& c);
Result enter_dual_level(Trace& t, const Call& c);
// numpy_calls.cpp
Result numpy_function(Trace& t, const Call& c);

// Of functions written in Python (python_functions.cpp of this folder).
// imports.cpp
Result import_module(Trace& t, const Call& c);
// transforms.cpp
Result without_compiled_autograd(Trace& t, const Call& c);
Result load_decompositions(Trace& t, const Call& c);
// compiling.cpp
Result is_compiling(Trace& t, const Call& c);
Result is_dynamo_compiling(Trace& t, const Call& c);
Result mark_for_dynamo(Trace& t, const Call& c);
Result request_break(Trace& t, const Call& c);
Result as_compiled(Trace& t, const Call& c);
Result compiled_by_torch(Trace& t, const Call& c);
Result hidden_from_dynamo(Trace& t, const Call& c);
// profiler_ranges.cpp
Result enter_range(Trace& t, const Call& c);
Result exit_range(Trace& t, const Call& c);
// optimizer_values.cpp
Result optimizer_value(Trace& t, const Call& c);
Result tensor_item(Trace& t, const Call& c);
Result larger(Trace& t, const Call& c);
Result smaller(Trace& t, const Call& c);
// checkpoint.cpp
Result checkpoint(Trace& t, const Call& c);
// higher_order.cpp
Result call_higher_order(Trace& t, const Call& c);

}  // namespace vesta::capture::handlers
