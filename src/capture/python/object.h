// An owned reference to a Python object, or none. A thread that makes, copies or drops one holds the GIL.
#pragma once

#include <Python.h>

#include <utility>

namespace vesta::capture {

class Object {
 public:
  Object() = default;
  static Object take(PyObject* owned) {
    Object o;
    o.p_ = owned;
    return o;
  }
  static Object share(PyObject* borrowed) { return take(Py_XNewRef(borrowed)); }
  Object(const Object& o) : p_(Py_XNewRef(o.p_)) {}
  Object(Object&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Object& operator=(Object o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Object() { Py_XDECREF(p_); }

  PyObject* get() const { return p_; }
  PyObject* release() { return std::exchange(p_, nullptr); }
  // The address for a function that writes a new reference. Holds no reference before.
  PyObject** out() { return &p_; }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  PyObject* p_ = nullptr;
};

}  // namespace vesta::capture
