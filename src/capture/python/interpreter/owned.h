#pragma once

#include <Python.h>

namespace vesta::capture {

// Holds one reference, or none.
class Owned {
 public:
  Owned() = default;
  explicit Owned(PyObject* x) : x_(x) {}  // steals
  static Owned share(PyObject* x) { return Owned(Py_XNewRef(x)); }
  Owned(Owned&& other) noexcept : x_(other.release()) {}
  Owned& operator=(Owned&& other) noexcept {
    PyObject* old = x_;
    x_ = other.release();
    Py_XDECREF(old);
    return *this;
  }
  ~Owned() { Py_XDECREF(x_); }

  explicit operator bool() const { return x_ != nullptr; }
  PyObject* get() const { return x_; }
  PyObject* release() {
    PyObject* x = x_;
    x_ = nullptr;
    return x;
  }
  PyObject** out() { return &x_; }  // for a function that writes a new reference; holds none before

 private:
  PyObject* x_ = nullptr;
};

}  // namespace vesta::capture
