// Context variables: read as places, set for real, and set back when the trace ends.
#include "capture/python/tracer/trace.h"

namespace vesta::capture {
namespace {

Object value_of(PyObject* variable) {
  PyObject* x = nullptr;
  if (PyContextVar_Get(variable, nullptr, &x) < 0) PyErr_Clear();
  return Object::take(x);
}

}  // namespace

PyObject* Calls::context_value(PyObject* variable, PyObject* otherwise) {
  const Object value = value_of(variable);
  bool written = false;
  for (const ContextWrite& w : contexts_) written |= w.variable.get() == variable;
  if (!written) {
    if (t_.sources.find(variable) < 0) return t_.graph_break(Break::NewContextVariableRead);
    const int source = t_.sources.add(SourceKind::ContextValue, t_.sources.find(variable));
    if (value) return t_.tracker.track(value.get(), source);
    t_.guards.add(Check::Absent, source);
  } else if (value) {
    return t_.tensors.wrap(Py_NewRef(value.get()));
  }
  if (otherwise) return Py_NewRef(otherwise);
  PyErr_SetObject(PyExc_LookupError, variable);
  return nullptr;
}

PyObject* Calls::set_context(PyObject* method, PyObject* const* args, Py_ssize_t n, PyObject* variable, bool sets) {
  if (t_.sources.find(variable) < 0) return t_.graph_break(Break::NewContextVariableSet);
  bool written = false;
  for (const ContextWrite& w : contexts_) written |= w.variable.get() == variable;
  if (!sets && !written) return t_.graph_break(Break::ContextVariableReset);
  const Object before = value_of(variable);
  PyObject* result = t_.tracker.finish_call(PyObject_Vectorcall(method, args, static_cast<size_t>(n), nullptr));
  if (result && sets && !written)
    contexts_.push_back({Object::share(variable), before, Object::share(result), t_.progress.root_count() - 1});
  return result;
}

int Calls::changed_context() const {
  for (const ContextWrite& w : contexts_)
    if (value_of(w.variable.get()).get() != w.before.get()) return w.count;
  return -1;
}

void Calls::restore_contexts() {
  for (const ContextWrite& w : contexts_) {
    if (value_of(w.variable.get()).get() == w.before.get()) continue;
    // A token serves once; the program may have used this one.
    if (PyContextVar_Reset(w.variable.get(), w.token.get()) == 0) continue;
    PyErr_Clear();
    const Object token = Object::take(w.before ? PyContextVar_Set(w.variable.get(), w.before.get()) : nullptr);
    PyErr_Clear();
  }
  contexts_.clear();
}

}  // namespace vesta::capture
