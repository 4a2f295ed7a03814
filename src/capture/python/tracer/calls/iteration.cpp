// iter, next and len, as functions and as special methods.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/tracer/tracer.h"

namespace vesta::capture::handlers {

Result iterate(Tracer& t, const Call& c) {
  if (c.owner() && c.named() == 0 && c.rest_count() == 0) return t.get_iter(c.owner());
  if (c.self || !c.is_positional(2)) return std::nullopt;  // iter(function, sentinel)
  return t.calls.may_pass(c.args[0]) ? t.calls.plainly(c) : nullptr;
}

Result advance(Tracer& t, const Call& c) {
  PyObject* iterator = c.owner();
  if (!iterator || c.named() > 0 || !PyIter_Check(iterator)) return std::nullopt;
  // By the function itself: a generator's StopIteration has what it returned.
  return t.may_advance(iterator) ? t.calls.plainly(c) : nullptr;
}

Result length(Tracer& t, const Call& c) {
  PyObject* x = c.owner();
  if (!x || c.named() > 0 || c.rest_count() != 0) return std::nullopt;
  // As an int it would be a constant; as a size it may be a symbol.
  if (is_traced(x)) {
    const Object rank = Object::take(PyObject_GetAttrString(x, "ndim"));
    if (!rank) return t.finish_call(nullptr);
    if (PyObject_IsTrue(rank.get()) == 1) return t.finish_call(PyObject_CallMethod(x, "size", "i", 0));
  }
  if (is_tensor(x)) return t.calls.plainly(c);
  const Py_ssize_t size = t.length(x);
  return size < 0 ? nullptr : PyLong_FromSsize_t(size);
}

}  // namespace vesta::capture::handlers
