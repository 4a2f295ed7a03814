#include "capture/python/tracer/calls/context_variables.h"

#include <algorithm>

#include "capture/python/functions/call_handlers.h"
#include "capture/python/tracer/calls/call.h"
#include "capture/python/tracer/tracer.h"

namespace vesta::capture {
namespace {

Object value_of(PyObject* variable) {
  PyObject* x = nullptr;
  if (PyContextVar_Get(variable, nullptr, &x) < 0) PyErr_Clear();
  return Object::take(x);
}

// A method of a context variable with at most one argument.
bool is_supported(const Call& c) {
  return c.owner() && c.named() == 0 && PyContextVar_CheckExact(c.owner()) && c.rest_count() <= 1;
}

}  // namespace

bool ContextVariables::is_written(PyObject* variable) const {
  return std::any_of(writes_.begin(), writes_.end(), [&](const Write& w) { return w.variable.get() == variable; });
}

PyObject* ContextVariables::get(PyObject* variable, PyObject* otherwise) {
  const Object value = value_of(variable);
  if (!is_written(variable)) {
    if (t_.sources.find(variable) < 0) return t_.graph_break(Break::NewContextVariableRead);
    const int source = t_.sources.add(SourceKind::ContextValue, t_.sources.find(variable));
    if (value) return t_.track(value.get(), source);
    t_.guard(Check::Absent, source);
  } else if (value) {
    return t_.wrap(Py_NewRef(value.get()));
  }
  if (otherwise) return Py_NewRef(otherwise);
  PyErr_SetObject(PyExc_LookupError, variable);
  return nullptr;
}

PyObject* ContextVariables::set(PyObject* method, PyObject* const* args, Py_ssize_t n, PyObject* variable) {
  if (t_.sources.find(variable) < 0) return t_.graph_break(Break::NewContextVariableSet);
  const bool is_first = !is_written(variable);
  const Object before = value_of(variable);
  PyObject* token = t_.finish_call(PyObject_Vectorcall(method, args, static_cast<size_t>(n), nullptr));
  if (token && is_first)
    writes_.push_back({Object::share(variable), before, Object::share(token), t_.root_count() - 1});
  return token;
}

PyObject* ContextVariables::reset(PyObject* method, PyObject* const* args, Py_ssize_t n, PyObject* variable) {
  if (t_.sources.find(variable) < 0) return t_.graph_break(Break::NewContextVariableSet);
  if (!is_written(variable)) return t_.graph_break(Break::ContextVariableReset);
  return t_.finish_call(PyObject_Vectorcall(method, args, static_cast<size_t>(n), nullptr));
}

int ContextVariables::changed() const {
  for (const Write& w : writes_)
    if (value_of(w.variable.get()).get() != w.before.get()) return w.count;
  return -1;
}

void ContextVariables::restore() {
  for (const Write& w : writes_) {
    if (value_of(w.variable.get()).get() == w.before.get()) continue;
    // A token serves once; the program may have used this one.
    if (PyContextVar_Reset(w.variable.get(), w.token.get()) == 0) continue;
    PyErr_Clear();
    const Object token = Object::take(w.before ? PyContextVar_Set(w.variable.get(), w.before.get()) : nullptr);
    PyErr_Clear();
  }
  writes_.clear();
}

namespace handlers {

Result get_context_variable(Tracer& t, const Call& c) {
  if (!is_supported(c)) return std::nullopt;
  return t.calls.contexts.get(c.owner(), c.rest_count() == 1 ? c.rest()[0] : nullptr);
}

Result set_context_variable(Tracer& t, const Call& c) {
  if (!is_supported(c) || c.rest_count() != 1) return std::nullopt;
  return t.calls.contexts.set(c.function, c.args, c.n, c.owner());
}

Result reset_context_variable(Tracer& t, const Call& c) {
  if (!is_supported(c) || c.rest_count() != 1) return std::nullopt;
  return t.calls.contexts.reset(c.function, c.args, c.n, c.owner());
}

}  // namespace handlers

}  // namespace vesta::capture
