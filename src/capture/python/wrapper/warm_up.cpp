#include "capture/python/wrapper/warm_up.h"

#include "capture/python/hook/hook.h"
#include "capture/python/object.h"
#include "capture/python/wrapper/captured_callable.h"
#include "capture/python/wrapper/captured_function.h"

namespace vesta::capture {
namespace {

// What is raised in the call's first frame. No `except Exception` in a caller catches it.
PyObject* stop_class() {
  static PyObject* const made = PyErr_NewException("vesta._C.WarmedUp", PyExc_BaseException, nullptr);
  return made;
}

class WarmedFrame final : public FrameReceiver {
 public:
  WarmedFrame(CapturedCallable& callable, WarmUp& out) : callable_(callable), out_(out) {}
  PyObject* receive(PyThreadState* t, Frame* f, int) override { return callable_.warm(t, f, out_); }

 private:
  CapturedCallable& callable_;
  WarmUp& out_;
};

}  // namespace

bool warm_up(PyObject* captured_function, PyObject* args, PyObject* keywords, WarmUp& out) {
  CapturedCallable& c = captured_in(captured_function);
  const Object wrapped = Object::share(c.wrapped());
  if (PyCFunction_Check(wrapped.get())) {
    PyErr_SetString(PyExc_TypeError, "vesta.warm takes Python code; this is a function written in C");
    return false;
  }
  WarmedFrame first(c, out);
  Object result;
  {
    const HookScope scope(first, nullptr);
    result = Object::take(PyObject_Call(wrapped.get(), args, keywords));
  }
  if (result) return true;
  if (!PyErr_ExceptionMatches(stop_class())) return false;
  PyErr_Clear();
  return true;
}

PyObject* end_warm_up(PyThreadState* t, Frame* f, int position) {
  PyErr_SetNone(stop_class());
  return throw_at(t, f, position);
}

}  // namespace vesta::capture
