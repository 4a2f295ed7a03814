// What torch.optim computes of step counters and norms with Python's floats: its functions take x.item() in eager
// calls, and some take x itself where they are compiled. In a trace the value is x in float64, the type of Python's
// floats: bias corrections are eager's, and no graph depends on a counter's value. GradScaler adds up such values and
// branches on the sum: it asks for the truth of one tensor.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/symbolic_scalar.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture::handlers {
namespace {

// A function of torch.optim calls, or the one of GradScaler that asks whether any gradient is infinite. In the
// segment's own frame the value would be alive after a graph break, and Python would hand it to operators that take
// numbers alone; what an inner frame holds does not outlive a break.
bool is_in_optimizer(const Trace& t) {
  const Frame* f = t.progress.place().frame;
  PyObject* globals = f && f != t.root ? globals_of(f) : nullptr;
  PyObject* name = globals && PyDict_Check(globals) ? PyDict_GetItemString(globals, "__name__") : nullptr;
  if (utf8_of(name).starts_with("torch.optim.")) return true;
  return utf8_of(name) == "torch.amp.grad_scaler" &&
         utf8_of(code_of(f)->co_qualname).starts_with("GradScaler._maybe_opt_step.");
}

PyObject* call(Trace& t, PyObject* owner, const char* name, std::initializer_list<PyObject*> args) {
  const Object f = attribute_of(owner, name);
  return f ? t.calls.call(f.get(), args.begin(), static_cast<Py_ssize_t>(args.size()), nullptr) : nullptr;
}

bool is_value(PyObject* x) {
  if (!is_tensor(x) || !sizes_of(x).empty()) return false;
  const Object type = Object::take(PyObject_GetAttr(x, "dtype"_name));
  return type && type.get() == attribute_of("torch", "float64").get();
}

// The value of a 0-d tensor of a real type: a tensor of float64.
Result value_of(Trace& t, PyObject* x) {
  if (!is_tensor(x) || !is_in_optimizer(t) || !sizes_of(x).empty()) return std::nullopt;
  const Object real = Object::take(PyObject_CallMethod(x, "is_floating_point", nullptr));
  if (real.get() != Py_True) return PyErr_Clear(), std::nullopt;
  return call(t, reinterpret_cast<PyObject*>(tensor_class()), "double", {x});
}

// max(a, b) is b if b > a, min(a, b) is b if b < a; else they are a.
Result larger_or_smaller(Trace& t, const Call& c, const char* compare, const char* compare_backwards) {
  if (!c.is_positional(2) || !is_in_optimizer(t) || !(is_value(c.args[0]) || is_value(c.args[1]))) return std::nullopt;
  Object x[2];
  for (int i = 0; i < 2; ++i) {
    const bool number = PyFloat_CheckExact(c.args[i]) || PyLong_CheckExact(c.args[i]);
    if (!number && !is_value(c.args[i]) && !is_symbolic_scalar(c.args[i])) return std::nullopt;
    x[i] = is_symbolic_scalar(c.args[i]) ? Object::take(t.numbers.as_tensor(c.args[i], c.args[1 - i]))
                                         : Object::share(c.args[i]);
    if (!x[i]) return nullptr;
  }
  PyObject *a = x[0].get(), *b = x[1].get();
  auto* const tensors = reinterpret_cast<PyObject*>(tensor_class());
  const Object takes_b =
      Object::take(is_tensor(b) ? call(t, tensors, compare, {b, a}) : call(t, tensors, compare_backwards, {a, b}));
  const Object torch = Object::take(PyImport_ImportModule("torch"));
  return takes_b && torch ? call(t, torch.get(), "where", {takes_b.get(), b, a}) : nullptr;
}

}  // namespace

// torch.optim.optimizer._get_value(x)
Result optimizer_value(Trace& t, const Call& c) { return c.is_positional(1) ? value_of(t, c.args[0]) : std::nullopt; }

Result tensor_item(Trace& t, const Call& c) {
  return c.owner() && c.named() == 0 && c.rest_count() == 0 ? value_of(t, c.owner()) : std::nullopt;
}

Result larger(Trace& t, const Call& c) { return larger_or_smaller(t, c, "gt", "lt"); }
Result smaller(Trace& t, const Call& c) { return larger_or_smaller(t, c, "lt", "gt"); }

}  // namespace vesta::capture::handlers
