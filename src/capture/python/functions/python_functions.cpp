#include "capture/python/functions/python_functions.h"

#include <algorithm>
#include <array>

#include "capture/python/functions/call_handlers.h"
#include "capture/python/object.h"

namespace vesta::capture {
namespace {

struct Row {
  const char* module;
  const char* name;  // qualified; "f.<locals>.g" is the function g whose code is a constant of f's code
  CallHandler handler;
  bool computes_nothing = false;
};

constexpr Row kRows[] = {
    {"vesta", "is_compiling", handlers::is_compiling, true},
    {"torch.compiler", "is_compiling", handlers::is_compiling, true},
    {"torch._dynamo.external_utils", "is_compiling", handlers::is_compiling, true},
    {"torch.compiler", "is_dynamo_compiling", handlers::is_dynamo_compiling},
    {"torch._dynamo", "graph_break", handlers::request_break, true},
    {"torch._dynamo.decorators", "skip_frame", handlers::request_break, true},
    {"torch._dynamo.decorators", "step_unsupported", handlers::request_break, true},
    {"torch._dynamo.decorators", "mark_static", handlers::mark_for_dynamo},
    {"torch._dynamo.decorators", "mark_static_address", handlers::mark_for_dynamo},
    {"vesta.compiled_method", "as_compiled", handlers::as_compiled},
    {"torch._dynamo.eval_frame", "_TorchDynamoContext.__call__.<locals>.compile_wrapper", handlers::compiled_by_torch},
    {"torch._dynamo.eval_frame", "DisableContext.__call__.<locals>._fn", handlers::compiled_by_torch},
    {"torch._compile", "_disable_dynamo.<locals>.inner", handlers::hidden_from_dynamo},
    {"torch.utils.checkpoint", "checkpoint", handlers::checkpoint},
    {"torch._ops", "HigherOrderOperator.__call__", handlers::call_higher_order},
    {"torch.autograd.profiler", "record_function.__init__", nullptr, true},
    {"torch.autograd.profiler", "record_function.__enter__", handlers::enter_range, true},
    {"torch.autograd.profiler", "record_function.__exit__", handlers::exit_range, true},
    {"torch.optim.optimizer", "_get_value", handlers::optimizer_value},
    {"torch.autograd", "_make_grads", handlers::make_gradients},
    {"torch.autograd.graph", "_engine_run_backward", handlers::run_backward},
    {"importlib", "import_module", handlers::import_module},
    {"torch._dynamo.compiled_autograd", "_disable", handlers::without_compiled_autograd},
    {"torch._functorch.predispatch", "lazy_load_decompositions", handlers::load_decompositions},
    {"torch", "Tensor.register_hook", handlers::register_hook, true},
    {"torch", "Tensor.register_post_accumulate_grad_hook", handlers::register_hook, true},
};

PyObject* attribute(PyObject* function, const char* name) {
  PyObject* dict = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  return dict ? PyDict_GetItemString(dict, name) : nullptr;
}

PyCodeObject* code_of_function(PyObject* f) {
  return f && PyFunction_Check(f) ? reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(f)) : nullptr;
}

// A function's code among the constants of the code that makes it.
PyCodeObject* inner_code(PyCodeObject* outer, const std::string& name) {
  for (PyObject* x : span_of(outer ? outer->co_consts : nullptr)) {
    auto* code = reinterpret_cast<PyCodeObject*>(x);
    if (PyCode_Check(x) && PyUnicode_CompareWithASCIIString(code->co_name, name.c_str()) == 0) return code;
  }
  return nullptr;
}

// The function of this name that a decorator was given; the decorated one if there is none.
PyObject* undecorated(PyObject* f, std::string_view name) {
  for (PyObject* x = f; x && PyFunction_Check(x); x = attribute(x, "__wrapped__"))
    if (utf8_of(code_of_function(x)->co_qualname) == name) return x;
  return f;
}

// The code that a row means; borrowed, nullptr while its module is not imported.
PyCodeObject* resolve(const Row& row) {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), row.module);
  if (!module || !PyModule_Check(module)) return nullptr;
  PyObject* attributes = PyModule_GetDict(module);
  PyCodeObject* code = nullptr;
  const std::string_view name = row.name;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    const std::string part(name.substr(at, end - at));
    at = end + 1;
    if (part == "<locals>") continue;
    if (code) {
      code = inner_code(code, part);
      if (!code) return nullptr;
      continue;
    }
    PyObject* found = attributes ? PyDict_GetItemString(attributes, part.c_str()) : nullptr;
    code = code_of_function(found);
    if (code && end == name.size()) code = code_of_function(undecorated(found, name));
    if (!code && !(found && PyType_Check(found))) return nullptr;
    attributes = code ? nullptr : reinterpret_cast<PyTypeObject*>(found)->tp_dict;
  }
  return code;
}

// Codes are compared only where the names are equal: one lookup tells most functions apart.
const Row* row_of(PyObject* function) {
  static PyObject* const names = [] {
    PyObject* set = PySet_New(nullptr);
    for (const Row& row : kRows) PySet_Add(set, Object::take(PyUnicode_InternFromString(row.name)).get());
    return set;
  }();
  static std::array<PyCodeObject*, std::size(kRows)> codes = {};
  PyCodeObject* code = code_of_function(function);
  if (!code || PySet_Contains(names, code->co_qualname) != 1) return nullptr;
  for (size_t i = 0; i < codes.size(); ++i) {
    if (!codes[i])
      codes[i] = reinterpret_cast<PyCodeObject*>(Py_XNewRef(reinterpret_cast<PyObject*>(resolve(kRows[i]))));
    if (codes[i] == code) return &kRows[i];
  }
  return nullptr;
}

}  // namespace

CallHandler handler_of(PyObject* function) {
  const Row* row = row_of(function);
  return row ? row->handler : nullptr;
}

bool dispatches_higher_order(PyObject* function) { return handler_of(function) == handlers::call_higher_order; }

bool computes_nothing(PyObject* function) {
  const Row* row = row_of(function);
  return row && row->computes_nothing;
}

bool is_disabled(PyObject* function) {
  PyObject* dict = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  if (!dict || PyDict_GetItemWithError(dict, "_torchdynamo_disable"_name) != Py_True) return false;
  // The first use of torch.compile in a process disables functions of torch.optim that Dynamo does not support.
  PyObject* why = attribute(function, "_torchdynamo_disable_msg");
  const std::string_view reason = why && PyUnicode_Check(why) ? utf8_of(why) : std::string_view();
  const bool of_dynamo =
      reason.starts_with("optimizer <class 'torch.optim.") || reason == "don't trace into fused optimizer";
  PyObject* module = of_dynamo ? PyFunction_GetModule(function) : nullptr;
  return !module || !PyUnicode_Check(module) || !utf8_of(module).starts_with("torch.optim.");
}

std::string reason_of_disabling(PyObject* function) {
  PyObject* why = attribute(function, "_torchdynamo_disable_msg");
  return why && PyUnicode_Check(why) ? ": " + std::string(utf8_of(why)) : std::string();
}

PyObject* disabled_alone(PyObject* function) {
  if (!is_disabled(function) || attribute(function, "_torchdynamo_disable_recursive") != Py_False) return nullptr;
  return attribute(function, "_torchdynamo_orig_callable");
}

PyObject* wrapped_callable(PyObject* function, const char* name) {
  PyObject* inner = attribute(function, name);
  return inner && PyCallable_Check(inner) ? inner : nullptr;
}

std::vector<std::pair<std::string, bool>> resolved_python_rows() {
  std::vector<std::pair<std::string, bool>> out;
  for (const Row& row : kRows) out.emplace_back(row.module + (std::string(".") + row.name), resolve(row) != nullptr);
  return out;
}

}  // namespace vesta::capture
