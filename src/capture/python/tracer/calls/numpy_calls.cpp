// numpy's functions, of plain numbers to a plain number. Anything else of numpy is an array, which a graph cannot hold.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/hook/hook.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/symbolic_scalar.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/classes.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture::handlers {

Result numpy_function(Trace& t, const Call& c) {
  for (Py_ssize_t i = 0; i < c.all(); ++i)
    if (PyObject* symbolic = first_symbolic_scalar(c.args[i])) return t.numbers.specialize(symbolic);
  for (Py_ssize_t i = 0; i < c.all(); ++i) {
    PyObject* x = c.args[i];
    const bool is_sequence = PyList_CheckExact(x) || (PyTuple_Check(x) && !is_python_class(Py_TYPE(x)));
    if (is_tensor(x) || (!is_sequence && !is_symbolic(x) && !is_scalar(x) && !is_numpy_scalar(x)))
      return t.graph_break(Break::NumPyArguments);
    if (!t.tracker.operand(x)) return nullptr;
  }
  const HookOff off;  // numpy's own Python code
  Object x = Object::take(t.calls.with_numbers(c));
  if (!x || is_scalar(x.get()) || is_numpy_scalar(x.get())) return x.release();
  return t.graph_break(Break::NumPyArray);
}

}  // namespace vesta::capture::handlers
