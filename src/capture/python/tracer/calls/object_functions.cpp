// isinstance, id, hash: what a program asks about an object as a whole. iter, next and len, as functions and as special
// methods.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture::handlers {
namespace {

// A hash may be made of addresses: those become facts of the trace.
bool guard_hash(Trace& t, PyObject* x) {
  if (!t.objects.may_read_class(x)) return false;
  if (is_scalar(x) || PyType_Check(x)) return true;
  for (Py_ssize_t i = 0; PyTuple_Check(x) && i < PyTuple_GET_SIZE(x); ++i)
    if (!guard_hash(t, PyTuple_GET_ITEM(x, i))) return false;
  if (PyMethod_Check(x)) return guard_hash(t, PyMethod_GET_SELF(x)) && guard_hash(t, PyMethod_GET_FUNCTION(x));
  return Py_TYPE(x)->tp_hash != PyBaseObject_Type.tp_hash || t.guards.add_address(t.tensors.held_by_program(x));
}

}  // namespace

Result is_instance(Trace& t, const Call& c) {
  if (!c.is_positional(2)) return std::nullopt;
  PyObject *x = c.args[0], *classes = c.args[1];
  t.guards.add_class(Py_TYPE(x));
  t.guards.add_class_check(classes);
  if (const Object given = t.objects.held_by_program(x); given.get() != x) {
    PyObject* asked[] = {given.get(), classes};
    return t.calls.plainly(c.function, asked, c.n, c.names);
  }
  if (PyTuple_Check(classes) && !t.containers.track_contents(classes, 4)) return nullptr;
  if (is_traced(x))
    if (const int known = is_of_tensor_type(x, classes); known >= 0) return PyBool_FromLong(known);
  return t.calls.plainly(c);
}

Result address(Trace& t, const Call& c) {
  if (!c.is_positional(1)) return std::nullopt;
  // An address is a fact of one object. An object that the trace made will be somewhere else in the next call.
  PyObject* x = t.tensors.held_by_program(c.args[0]);
  if (!t.objects.may_read_class(x)) return nullptr;
  if (x != Py_None && !PyBool_Check(x) && !PyType_Check(x) && !t.guards.add_address(x)) return nullptr;
  return t.calls.plainly(c.function, &x, 1, nullptr);
}

Result hash(Trace& t, const Call& c) {
  if (!c.is_positional(1)) return std::nullopt;
  if (!t.calls.may_read_arguments(c) || !guard_hash(t, c.args[0])) return nullptr;
  return t.calls.with_numbers(c);
}

Result iterate(Trace& t, const Call& c) {
  if (c.owner() && c.named() == 0 && c.rest_count() == 0) return t.items.get_iter(c.owner());
  if (c.self || !c.is_positional(2)) return std::nullopt;  // iter(function, sentinel)
  return t.calls.may_pass(c.args[0]) ? t.calls.plainly(c) : nullptr;
}

Result advance(Trace& t, const Call& c) {
  PyObject* iterator = c.owner();
  if (!iterator || c.named() > 0 || !PyIter_Check(iterator)) return std::nullopt;
  // By the function itself: a generator's StopIteration has what it returned.
  return t.items.may_advance(iterator) ? t.calls.plainly(c) : nullptr;
}

Result length(Trace& t, const Call& c) {
  PyObject* x = c.owner();
  if (!x || c.named() > 0 || c.rest_count() != 0) return std::nullopt;
  // As an int it would be a constant; as a size it may be a symbol.
  if (is_traced(x)) {
    const Object rank = Object::take(PyObject_GetAttrString(x, "ndim"));
    if (!rank) return t.tracker.finish_call(nullptr);
    if (PyObject_IsTrue(rank.get()) == 1) return t.tracker.finish_call(PyObject_CallMethod(x, "size", "i", 0));
  }
  if (is_tensor(x)) return t.calls.plainly(c);
  const Py_ssize_t size = t.items.length(x);
  return size < 0 ? nullptr : PyLong_FromSsize_t(size);
}

}  // namespace vesta::capture::handlers
