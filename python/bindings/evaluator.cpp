// The evaluator alone, for tests: a function and all that it calls, run by it with CPython's own operations.
#include "evaluator.h"

#include "capture/python/interpreter/evaluate.h"

namespace vesta::python {
namespace {

thread_local int evaluating = 0;

PyObject* hook(PyThreadState* t, capture::Frame* f, int throwflag) {
  static capture::Operations operations;
  return evaluating > 0 ? capture::evaluate(t, f, throwflag, operations)
                        : capture::evaluate_by_cpython(t, f, throwflag);
}

PyObject* evaluate(PyObject*, PyObject* args) {
  PyObject *function, *positional, *keywords = nullptr;
  if (!PyArg_ParseTuple(args, "OO!|O!", &function, &PyTuple_Type, &positional, &PyDict_Type, &keywords)) return nullptr;
  static int calls = 0;
  static capture::EvalHook before = nullptr;
  if (calls++ == 0) {
    before = capture::get_eval_hook();
    capture::set_eval_hook(hook);
  }
  ++evaluating;
  PyObject* result = PyObject_Call(function, positional, keywords);
  --evaluating;
  if (--calls == 0) capture::set_eval_hook(before);
  return result;
}

PyObject* how_handled(PyObject*, PyObject* opcode) {
  long number = PyLong_AsLong(opcode);
  if (number == -1 && PyErr_Occurred() != nullptr) return nullptr;
  return PyUnicode_FromString(capture::how_handled(static_cast<int>(number)));
}

PyMethodDef methods[] = {
    {"evaluate", evaluate, METH_VARARGS,
     "evaluate(function, args, kwargs={}): the call, with every Python frame of it run by Vesta's evaluator."},
    {"how_handled", how_handled, METH_O, "How the evaluator handles an opcode; '' if it forgot it."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_evaluator(PyObject* module) { return PyModule_AddFunctions(module, methods); }

}  // namespace vesta::python
