// The handlers that rows of C functions name. They are written in tracer/calls, where a file has the handlers of one
// subject; CallHandler in functions.h says what a handler returns.
#pragma once

#include "capture/python/functions/functions.h"

namespace vesta::capture::handlers {

using Result = std::optional<PyObject*>;

// attribute_functions.cpp
Result get_attribute(Tracer& t, const Call& c);
Result has_attribute(Tracer& t, const Call& c);
Result set_attribute(Tracer& t, const Call& c);
Result delete_attribute(Tracer& t, const Call& c);
Result object_get_attribute(Tracer& t, const Call& c);
Result object_set_attribute(Tracer& t, const Call& c);
Result object_delete_attribute(Tracer& t, const Call& c);
Result vars(Tracer& t, const Call& c);
// object_functions.cpp
Result is_instance(Tracer& t, const Call& c);
Result address(Tracer& t, const Call& c);
Result hash(Tracer& t, const Call& c);
Result build_class(Tracer& t, const Call& c);
// iteration.cpp
Result iterate(Tracer& t, const Call& c);
Result advance(Tracer& t, const Call& c);
Result length(Tracer& t, const Call& c);
// dict_methods.cpp
Result dict_get(Tracer& t, const Call& c);
Result dict_pop(Tracer& t, const Call& c);
Result dict_set_default(Tracer& t, const Call& c);
Result dict_update(Tracer& t, const Call& c);
// context_variables.cpp
Result get_context_variable(Tracer& t, const Call& c);
Result set_context_variable(Tracer& t, const Call& c);
Result reset_context_variable(Tracer& t, const Call& c);
// tensor_constructors.cpp
Result tensor_new(Tracer& t, const Call& c);
Result new_tensor(Tracer& t, const Call& c);
Result tensor_from_data(Tracer& t, const Call& c);
// torch_functions.cpp
Result torch_setting(Tracer& t, const Call& c);
Result autograd_apply(Tracer& t, const Call& c);
// numpy_calls.cpp
Result numpy_function(Tracer& t, const Call& c);

// Of functions written in Python (python_functions.cpp of this folder).
// compiling.cpp
Result is_compiling(Tracer& t, const Call& c);
Result is_dynamo_compiling(Tracer& t, const Call& c);
Result mark_for_dynamo(Tracer& t, const Call& c);
Result request_break(Tracer& t, const Call& c);
Result as_compiled(Tracer& t, const Call& c);
Result compiled_by_torch(Tracer& t, const Call& c);
Result hidden_from_dynamo(Tracer& t, const Call& c);
// higher_order.cpp
Result call_higher_order(Tracer& t, const Call& c);

}  // namespace vesta::capture::handlers
