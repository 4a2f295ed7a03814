// What is called: Python functions, methods, objects, and the arguments of calls that unpack them.
#include <vector>

#include "capture/python/functions/code_origin.h"
#include "capture/python/functions/functions.h"
#include "capture/python/functions/python_functions.h"
#include "capture/python/sources/cached_result.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/chosen_modules.h"
#include "capture/python/values/class_sets.h"
#include "capture/python/values/classes.h"
#include "capture/python/wrapper/captured_function.h"

namespace vesta::capture {
namespace {

// The arguments of a call with one more in front.
class WithFirst {
 public:
  WithFirst(PyObject* first, const Call& c) : args_{first} { args_.insert(args_.end(), c.args, c.args + c.all()); }
  Call call(PyObject* f, const Call& c) const { return {f, nullptr, args_.data(), c.n + 1, c.names}; }

 private:
  std::vector<PyObject*> args_;
};

// A module, or a method of one that is not special: those of containers compute nothing.
bool is_part(PyObject* f) {
  if (!PyMethod_Check(f)) return true;
  const Object name = Object::take(PyObject_GetAttr(f, "__name__"_name));
  if (!name) PyErr_Clear();
  return name && PyUnicode_Check(name.get()) && !utf8_of(name.get()).starts_with("__");
}

// A Python function that neither an installed package nor Python itself has.
bool is_of_program(PyObject* f) {
  if (PyMethod_Check(f)) f = PyMethod_GET_FUNCTION(f);
  if (!PyFunction_Check(f)) return false;
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(f));
  return !is_standard_library(code) && !is_installed_package(code);
}

}  // namespace

// Ends the trace at a call of code that is not compiled, or that is compiled on its own.
bool Calls::ends_at(PyObject* f) {
  const TraceSettings& s = t_.settings;
  const bool skips = s.chosen && s.chosen->has_skipped();
  PyObject* const module = skips || !s.apart.empty() ? module_called(f) : nullptr;
  if (module && skips) {
    const std::string* const name = s.chosen->skipped(module);
    const int source = t_.sources.find(module);
    if (source >= 0 && t_.sources[source].kind != SourceKind::Constant)
      t_.guards.add(Check::Skipped, source, s.chosen->skipped_addresses(), name != nullptr);
    if (name) return t_.graph_break(Break::ModuleSkipped, *name), true;
  }
  if (s.apart.empty() || !(module ? is_part(f) : is_of_program(f))) return false;
  t_.graph_break(Break::CompiledApart, name_of_callable(PyMethod_Check(f) ? PyMethod_GET_FUNCTION(f) : f), s.apart);
  return true;
}

PyObject* Calls::call(PyObject* f, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  if (t_.ended()) return nullptr;
  Call c{f, nullptr, args, n, names};
  if (ends_at(f)) return nullptr;
  if (PyFunction_Check(f)) return call_function(c);
  if (PyMethod_Check(f)) return call_method(c);
  if (PyType_Check(f)) return call_class(c);
  if (is_of(f, ClassSet::Partial)) return call_partial(c);
  if (PyWeakref_CheckRefExact(f) && c.all() == 0) {
    PyObject* x = PyWeakref_GetObject(f);
    const int source = t_.sources.find(f);
    if (source >= 0) return t_.tracker.track(x, t_.sources.add(SourceKind::Referent, source));
    return t_.tensors.wrap(Py_NewRef(x));
  }
  if (is_cached_function(f)) return call_cached(t_, c);
  if (PyObject* inner = wrapped_by_capture(f)) {
    // The object never changes what it wraps, so its own identity is all to guard.
    if (const int source = t_.sources.find(f); source >= 0) t_.guards.add(Check::Is, source, f);
    if (t_.sources.find(inner) < 0 && !t_.tracker.note(inner, t_.sources.constant(inner))) return nullptr;
    return call(inner, args, n, names);
  }
  if (is_python_class(Py_TYPE(f))) {
    t_.guards.add_class(Py_TYPE(f), "__call__"_name);
    PyObject* method = _PyType_Lookup(Py_TYPE(f), "__call__"_name);
    if (method && PyFunction_Check(method)) {
      t_.tracker.note_constant(method);
      if (!dispatches_higher_order(method)) return plainly(c);
      const WithFirst all(f, c);
      return call_function(all.call(method, c));
    }
  }
  if (PyCFunction_Check(f)) {
    PyObject* self = PyCFunction_GET_SELF(f);
    if (self && !PyModule_Check(self) && !PyType_Check(self)) c.self = self;
  } else if (is_method_wrapper(f)) {
    const Object self = Object::take(PyObject_GetAttrString(f, "__self__"));
    c.self = self.get();  // the method-wrapper keeps it
  }
  return call_known(known_callable(f), c);
}

PyObject* Calls::call_function(const Call& c) {
  PyObject* f = c.function;
  if (const CallHandler handler = handler_of(f))
    if (const auto result = handler(t_, c)) return *result;
  if (is_disabled(f)) return t_.graph_break(Break::CompilingDisabled, name_of_callable(f), reason_of_disabling(f));
  return plainly(c);
}

PyObject* Calls::call_method(const Call& c) {
  PyObject* function = PyMethod_GET_FUNCTION(c.function);
  if (PyFunction_Check(function) && !is_disabled(function) && !handler_of(function)) return plainly(c);
  const WithFirst all(PyMethod_GET_SELF(c.function), c);
  const Call unbound = all.call(function, c);
  return call(function, unbound.args, unbound.n, unbound.names);
}

PyObject* Calls::call_partial(const Call& c) {
  const Object function = Object::take(PyObject_GetAttrString(c.function, "func"));
  const Object bound = Object::take(PyObject_GetAttrString(c.function, "args"));
  const Object keywords = Object::take(PyObject_GetAttrString(c.function, "keywords"));
  if (!function || !bound || !keywords) return nullptr;
  if (!t_.containers.track_contents(bound.get(), 2) || !t_.containers.track_contents(keywords.get(), 2)) return nullptr;
  const Object more = Object::take(PyTuple_New(c.n));
  const Object named = Object::take(PyDict_Copy(keywords.get()));
  if (!more || !named) return nullptr;
  for (Py_ssize_t i = 0; i < c.n; ++i) PyTuple_SET_ITEM(more.get(), i, Py_NewRef(c.args[i]));
  for (Py_ssize_t i = c.n; i < c.all(); ++i)
    if (PyDict_SetItem(named.get(), PyTuple_GET_ITEM(c.names, i - c.n), c.args[i]) < 0) return nullptr;
  const Object joined = Object::take(PySequence_Concat(bound.get(), more.get()));
  return joined ? call_unpacked(function.get(), joined.get(), named.get()) : nullptr;
}

PyObject* Calls::in_place_of(const Call& c, PyObject* inner) {
  t_.guards.add_identity(c.function);
  t_.tracker.note_constant(inner);
  return call(inner, c.args, c.n, c.names);
}

PyObject* Calls::call_unpacked(PyObject* f, PyObject* args, PyObject* keywords) {
  if (t_.ended()) return nullptr;
  const Object items = t_.containers.unpacked(args), named = keywords ? t_.containers.unpacked(keywords) : Object();
  if (!items || (keywords && !named)) return nullptr;
  args = items.get();
  keywords = named.get();
  const Object tuple = Object::take(PyTuple_Check(args) ? Py_NewRef(args) : PySequence_Tuple(args));
  if (!tuple) return t_.python.call_unpacked(f, args, keywords);
  std::vector<PyObject*> flat;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i)
    flat.push_back(t_.tensors.fake_of(PyTuple_GET_ITEM(tuple.get(), i)));
  const auto n = static_cast<Py_ssize_t>(flat.size());
  Object names;
  if (keywords && PyDict_GET_SIZE(keywords) > 0) {
    names = Object::take(PyTuple_New(PyDict_GET_SIZE(keywords)));
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t at = 0, i = 0;
    while (PyDict_Next(keywords, &at, &key, &value)) {
      if (!PyUnicode_Check(key)) return t_.python.call_unpacked(f, args, keywords);
      PyTuple_SET_ITEM(names.get(), i++, Py_NewRef(key));
      flat.push_back(t_.tensors.fake_of(value));
    }
  }
  flat.push_back(nullptr);
  return call(f, flat.data(), n, names.get());
}

}  // namespace vesta::capture
