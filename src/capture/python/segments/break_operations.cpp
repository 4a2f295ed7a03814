#include "capture/python/segments/break_operations.h"

#include "capture/python/functions/code_origin.h"
#include "capture/python/functions/compilers.h"
#include "capture/python/functions/python_functions.h"
#include "capture/python/hook/hook.h"
#include "capture/python/segments/captured.h"
#include "capture/python/values/classes.h"

namespace vesta::capture {
namespace {

// The Python code that a call ends up in, if it helps to capture it.
struct Entered {
  PyCodeObject* code = nullptr;
  bool calls_only = false;  // the frame itself is left alone, and what it calls is captured
};

Entered entered(PyObject* f, int depth) {
  if (depth > 4) return {};
  if (PyFunction_Check(f)) {
    if (PyObject* alone = disabled_alone(f)) return {entered(alone, depth + 1).code, true};
    if (is_disabled(f) || computes_nothing(f)) return {};
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(f));
    if (is_standard_library(code)) return {};  // it computes nothing with tensors
    if (enters_compiler(code) || updates_parameters(code) || runs_autograd(code) || runs_transform(code)) return {};
    return {code};
  }
  if (PyMethod_Check(f)) return entered(PyMethod_GET_FUNCTION(f), depth + 1);
  if (!PyType_Check(f) && is_python_class(Py_TYPE(f))) {
    PyObject* method = _PyType_Lookup(Py_TYPE(f), "__call__"_name);
    if (method && PyFunction_Check(method)) return entered(method, depth + 1);
  }
  return {};
}

// Receives the frame of the called function.
class CalledFrame final : public FrameReceiver {
 public:
  CalledFrame(Captured& captured, Gain* gain, bool calls_only)
      : captured_(captured), gain_(gain), calls_only_(calls_only) {}
  PyObject* receive(PyThreadState* t, Frame* f, int) override {
    return calls_only_ ? captured_.run_with_captured_calls(t, f, gain_) : captured_.enter(t, f, gain_);
  }

 private:
  Captured& captured_;
  Gain* gain_;
  bool calls_only_;
};

Entered entered(const ChosenModules& chosen, PyObject* callable) {
  PyObject* module = chosen.has_skipped() ? module_called(callable) : nullptr;
  return module && chosen.skipped(module) ? Entered() : entered(callable, 0);
}

}  // namespace

PyObject* BreakOperations::call(PyObject* callable, PyObject* const* args, size_t flags, PyObject* names) {
  const Entered e = entered(captured_.chosen, callable);
  if (!e.code) return Operations::call(callable, args, flags, names);
  CalledFrame frame(captured_, gain_, e.calls_only);
  const HookScope scope(frame, e.code);
  return Operations::call(callable, args, flags, names);
}

PyObject* BreakOperations::call_unpacked(PyObject* callable, PyObject* args, PyObject* keywords) {
  const Entered e = entered(captured_.chosen, callable);
  if (!e.code) return Operations::call_unpacked(callable, args, keywords);
  CalledFrame frame(captured_, gain_, e.calls_only);
  const HookScope scope(frame, e.code);
  return Operations::call_unpacked(callable, args, keywords);
}

}  // namespace vesta::capture
