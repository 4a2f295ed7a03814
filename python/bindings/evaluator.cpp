// Runs the evaluator without a tracer, for tests: a function and all that it calls, with CPython's own operations.
#include "evaluator.h"

#include <utility>

#include "capture/python/interpreter/evaluate.h"

namespace vesta::python {
namespace {

// How the frames of a thread run. Whole: evaluate() runs them. A positive number n: the same, but after every n
// instructions the current frame goes on in CPython. ThrowByCpython: if an instruction fails, the frame goes on in
// CPython at that point.
enum How { Off = -3, Abort = -2, ThrowByCpython = -1, Whole = 0 };
thread_local int how = Off;

class Plain : public capture::Operations {
 public:
  bool before(capture::Frame*, int) override { return how <= 0 || ++executed_ % how != 0; }
  bool aborted() const override { return how == Abort && PyErr_Occurred() != nullptr; }

 private:
  int executed_ = 0;
};

PyObject* evaluate_throwing(PyThreadState* t, capture::Frame* f, capture::Operations& operations) {
  if (!capture::enter_recursion(t)) return capture::abandon(t, f);
  capture::link(t, f);
  capture::Evaluation e{t, f, operations, capture::next_position(f)};
  capture::Step result = capture::Step::Next;
  while (result == capture::Step::Next) {
    result = capture::step(e);
    if (result == capture::Step::Error && e.reraised && capture::enter_handler(e)) result = capture::Step::Next;
  }
  capture::unlink(t, f);
  capture::leave_recursion(t);
  if (result == capture::Step::Return) return capture::finish(t, f, e.result, e.position);
  return capture::depth_of(f) > 0 || !e.reraised ? capture::throw_at(t, f, e.position) : capture::abandon(t, f);
}

PyObject* hook(PyThreadState* t, capture::Frame* f, int throwflag) {
  static thread_local Plain operations;
  if (how == Off) return capture::evaluate_by_cpython(t, f, throwflag);
  constexpr int generators = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  PyCodeObject* code = capture::code_of(f);
  bool may_throw = (code->co_flags & generators) == 0 && !capture::is_observed(t, code);
  if (how == ThrowByCpython && may_throw) return evaluate_throwing(t, f, operations);
  return capture::evaluate(t, f, throwflag, operations);
}

// Sets the mode and returns the old one. The hook is installed while any thread needs it.
int set_how(int wanted) {
  static int threads = 0;
  static capture::EvalHook before = nullptr;
  int old = std::exchange(how, wanted);
  if (old == Off && wanted != Off && threads++ == 0) {
    before = capture::get_eval_hook();
    capture::set_eval_hook(hook);
  }
  if (old != Off && wanted == Off && --threads == 0) capture::set_eval_hook(before);
  return old;
}

PyObject* evaluate(PyObject*, PyObject* args) {
  PyObject *function, *positional, *keywords = nullptr;
  int wanted = Whole;
  if (!PyArg_ParseTuple(args, "OO!|O!i", &function, &PyTuple_Type, &positional, &PyDict_Type, &keywords, &wanted))
    return nullptr;
  int old = set_how(wanted);
  PyObject* result = PyObject_Call(function, positional, keywords);
  set_how(old);
  return result;
}

PyObject* call_evaluated(PyObject* self, PyObject* args, PyObject* keywords) {
  int old = set_how(static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(self, 1))));
  PyObject* result = PyObject_Call(PyTuple_GET_ITEM(self, 0), args, keywords);
  set_how(old);
  return result;
}

PyObject* evaluated(PyObject*, PyObject* args) {
  static PyMethodDef call = {"evaluated", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_evaluated)),
                             METH_VARARGS | METH_KEYWORDS, nullptr};
  PyObject* function;
  int wanted = Whole;
  if (!PyArg_ParseTuple(args, "O|i", &function, &wanted)) return nullptr;
  PyObject* self = Py_BuildValue("(Oi)", function, wanted);
  PyObject* callable = self != nullptr ? PyCFunction_New(&call, self) : nullptr;
  PyObject* method =
      callable != nullptr ? PyInstanceMethod_New(callable) : nullptr;  // binds to its object like a function
  Py_XDECREF(self);
  Py_XDECREF(callable);
  return method;
}

PyObject* evaluate_all(PyObject*, PyObject* args) {
  int wanted = Whole;
  if (!PyArg_ParseTuple(args, "|i", &wanted)) return nullptr;
  set_how(wanted);
  Py_RETURN_NONE;
}

PyObject* how_handled(PyObject*, PyObject* opcode) {
  long number = PyLong_AsLong(opcode);
  if (number == -1 && PyErr_Occurred() != nullptr) return nullptr;
  return PyUnicode_FromString(capture::how_handled(static_cast<int>(number)));
}

PyMethodDef evaluator_functions[] = {
    {"evaluate", evaluate, METH_VARARGS,
     "evaluate(function, args, kwargs={}, how=0): the call, with its Python frames run by Vesta's evaluator.\n\n"
     "how = n > 0: every n instructions the frame that is running goes on in CPython; -1: where an instruction fails; "
     "-2: an error leaves every frame, no handler runs."},
    {"evaluated", evaluated, METH_VARARGS,
     "evaluated(function, how=0): a callable whose calls are those of evaluate()."},
    {"evaluate_all", evaluate_all, METH_VARARGS, "evaluate_all(how=0): all new frames of this thread are run so."},
    {"how_handled", how_handled, METH_O, "How the evaluator handles an opcode; '' if it forgot it."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_evaluator(PyObject* module) { return PyModule_AddFunctions(module, evaluator_functions); }

}  // namespace vesta::python
