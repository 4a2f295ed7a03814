// How the instruction that breaks a graph is executed: as CPython does, but a Python function that it calls is captured
// on its own, where that may help.
#pragma once

#include "capture/python/interpreter/operations.h"
#include "capture/python/wrapper/step_aside.h"

namespace vesta::capture {

class Captured;

class BreakOperations final : public Operations {
 public:
  BreakOperations(Captured& captured, Gain* gain) : captured_(captured), gain_(gain) {}

  PyObject* call(PyObject* callable, PyObject* const* args, size_t flags, PyObject* names) override;
  PyObject* call_unpacked(PyObject* callable, PyObject* args, PyObject* keywords) override;

 private:
  Captured& captured_;
  Gain* gain_;
};

}  // namespace vesta::capture
