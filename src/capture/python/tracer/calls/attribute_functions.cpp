// getattr and its like, and the special methods behind them.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture::handlers {
namespace {

bool names_attribute(const Call& c, Py_ssize_t count) { return c.is_positional(count) && PyUnicode_Check(c.args[1]); }

Result none_unless_failed(int status) {
  if (status < 0) return nullptr;
  return Py_NewRef(Py_None);
}

// A call of object.__getattribute__, __setattr__ or __delattr__ with an attribute's name and `count - 1` more.
bool is_object_method(const Call& c, Py_ssize_t count) {
  return c.owner() && c.named() == 0 && c.rest_count() == count && PyUnicode_Check(c.rest()[0]);
}

// Attributes of these are no instance's: the tracer reads them in their own way, and nobody writes them.
bool has_own_attributes(PyObject* x) { return is_tensor(x) || PyType_Check(x) || PyModule_CheckExact(x); }

Result set_in_instance(Trace& t, const Call& c, PyObject* value) {
  if (has_own_attributes(c.owner())) return t.graph_break(Break::ClassOrTensorAttributeSet);
  return none_unless_failed(t.objects.set_plain_attr(c.owner(), c.rest()[0], value));
}

}  // namespace

Result get_attribute(Trace& t, const Call& c) {
  const bool has_default = names_attribute(c, 3);
  if (!has_default && !names_attribute(c, 2)) return std::nullopt;
  PyObject* x = t.objects.get_attr(c.args[0], c.args[1]);
  if (x || t.ended() || !has_default || !PyErr_ExceptionMatches(PyExc_AttributeError)) return x;
  PyErr_Clear();
  return Py_NewRef(c.args[2]);
}

Result has_attribute(Trace& t, const Call& c) {
  if (!names_attribute(c, 2)) return std::nullopt;
  const Object x = Object::take(t.objects.get_attr(c.args[0], c.args[1]));
  if (t.ended() || (!x && !PyErr_ExceptionMatches(PyExc_AttributeError))) return nullptr;
  PyErr_Clear();
  return PyBool_FromLong(static_cast<bool>(x));
}

Result set_attribute(Trace& t, const Call& c) {
  if (!names_attribute(c, 3)) return std::nullopt;
  return none_unless_failed(t.objects.set_attr(c.args[0], c.args[1], c.args[2]));
}

Result delete_attribute(Trace& t, const Call& c) {
  if (!names_attribute(c, 2)) return std::nullopt;
  return none_unless_failed(t.objects.set_attr(c.args[0], c.args[1], nullptr));
}

Result object_get_attribute(Trace& t, const Call& c) {
  if (!is_object_method(c, 1)) return std::nullopt;
  PyObject *owner = c.owner(), *name = c.rest()[0];
  if (has_own_attributes(owner)) return t.objects.get_attr(owner, name);
  return t.objects.get_plain_attr(owner, name);
}

Result object_set_attribute(Trace& t, const Call& c) {
  if (!is_object_method(c, 2)) return std::nullopt;
  return set_in_instance(t, c, c.rest()[1]);
}

Result object_delete_attribute(Trace& t, const Call& c) {
  if (!is_object_method(c, 1)) return std::nullopt;
  return set_in_instance(t, c, nullptr);
}

Result vars(Trace& t, const Call& c) {
  if (!c.is_positional(1) || is_tensor(c.args[0]) || PyType_Check(c.args[0]))
    return t.graph_break(Break::UnsupportedArguments, name_of_callable(c.function));
  if (!t.tracker.track_state(c.args[0])) return nullptr;
  return t.calls.plainly(c);
}

}  // namespace vesta::capture::handlers
