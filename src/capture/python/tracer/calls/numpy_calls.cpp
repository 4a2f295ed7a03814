// numpy's functions, of plain numbers to a plain number. Anything else of numpy is an array, which a graph cannot hold.
#include "capture/python/frame/hook_off.h"
#include "capture/python/functions/call_handlers.h"
#include "capture/python/functions/python_classes.h"
#include "capture/python/tracer/tracer.h"

namespace vesta::capture::handlers {

Result numpy_function(Tracer& t, const Call& c) {
  for (Py_ssize_t i = 0; i < c.all(); ++i) {
    PyObject* x = c.args[i];
    if (PyObject* symbolic = first_symbolic_scalar(x)) return t.specialize(symbolic);
    const bool is_sequence = PyList_CheckExact(x) || (PyTuple_Check(x) && !is_python_class(Py_TYPE(x)));
    if (is_tensor(x) || (!is_sequence && !is_symbolic(x) && !is_scalar(x) && !is_numpy_scalar(x)))
      return t.graph_break(Break::NumPyArguments);
    if (!t.operand(x)) return nullptr;
  }
  const HookOff off;  // numpy's own Python code
  Object x = Object::take(t.calls.with_numbers(c));
  if (!x || is_scalar(x.get()) || is_numpy_scalar(x.get())) return x.release();
  return t.graph_break(Break::NumPyArray);
}

}  // namespace vesta::capture::handlers
