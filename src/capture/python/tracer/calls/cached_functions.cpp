// Functions of functools.lru_cache. A call in the trace could not be undone: it stores its result, and cache_info()
// counts it. So a result that the cache has is a place that is read, and the epilogue makes the call again for its
// count; a result that is missing is a graph break, the first time.
#include <algorithm>

#include "capture/python/functions/code_origin.h"
#include "capture/python/functions/functions.h"
#include "capture/python/hook/hook.h"
#include "capture/python/sources/cached_result.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/symbolic_scalar.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/class_sets.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture {
namespace {

// An object that is a key by its identity.
bool has_plain_hash(PyObject* x) { return Py_TYPE(x)->tp_hash == PyBaseObject_Type.tp_hash || PyFunction_Check(x); }

// What functools.lru_cache wraps is of a package or of Python itself, not of the program.
bool is_library_function(PyObject* cached) {
  const Object f = attribute_of(cached, "__wrapped__");
  if (!f || !PyFunction_Check(f.get())) return false;
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(f.get()));
  return is_installed_package(code) || is_standard_library(code);
}

// A form of the module typing or of the language, which never changes: List, List[int], Optional[T], tuple[int],
// int | None.
bool is_annotation(PyObject* x) {
  static PyObject* const union_type = attribute_of("types", "UnionType").release();
  if (Py_IS_TYPE(x, &Py_GenericAliasType) || reinterpret_cast<PyObject*>(Py_TYPE(x)) == union_type) return true;
  return utf8_of(attribute_of(reinterpret_cast<PyObject*>(Py_TYPE(x)), "__module__").get()) == "typing";
}

bool is_plain_tuple(PyObject* x) { return PyTuple_CheckExact(x) || is_of(x, ClassSet::TorchSize); }

// A number that changes from call to call cannot be a key.
bool holds_symbol(PyObject* x) {
  if (is_symbolic(x) || is_symbolic_scalar(x)) return true;
  for (Py_ssize_t i = 0; is_plain_tuple(x) && i < PyTuple_GET_SIZE(x); ++i)
    if (holds_symbol(PyTuple_GET_ITEM(x, i))) return true;
  return false;
}

// An argument by whose value or identity a cached function keeps its results. False: the trace has ended.
bool guard_cache_key(Trace& t, PyObject* x, bool of_library) {
  if (is_plain_tuple(x)) {
    if (!t.tracker.operand(x)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(x); ++i)
      if (!guard_cache_key(t, PyTuple_GET_ITEM(x, i), of_library)) return false;
    return true;
  }
  // A tensor's device, dtype or layout is guarded where it is read.
  const int source = t.sources.find(x);
  if (is_scalar(x) || PyType_Check(x) || is_of(x, ClassSet::TensorProperties) ||
      (source >= 0 && t.sources[source].kind == SourceKind::Constant))
    return true;
  const bool annotation = of_library && is_annotation(x);
  if (!annotation && (source < 0 || !has_plain_hash(x))) return t.graph_break(Break::CachedFunctionArguments), false;
  if (source >= 0) t.guards.add(Check::Is, source, x);
  return true;
}

// What the epilogue calls again.
bool note_call(Trace& t, const Call& c) {
  Calls::CachedCall call{Object::share(c.function), Object::take(PyTuple_New(c.n)),
                         Object::take(c.named() > 0 ? PyDict_New() : nullptr)};
  if (!call.arguments || (c.named() > 0 && !call.keywords)) return false;
  for (Py_ssize_t i = 0; i < c.n; ++i) PyTuple_SET_ITEM(call.arguments.get(), i, Py_NewRef(c.args[i]));
  for (Py_ssize_t i = c.n; i < c.all(); ++i)
    if (PyDict_SetItem(call.keywords.get(), PyTuple_GET_ITEM(c.names, i - c.n), c.args[i]) < 0) return false;
  t.calls.cached_calls.push_back(std::move(call));
  return true;
}

}  // namespace

PyObject* call_cached(Trace& t, const Call& given) {
  PyObject* f = given.function;
  const bool of_library = is_library_function(f);
  if (of_library && std::any_of(given.args, given.args + given.all(), holds_symbol)) {
    const Object function = Object::take(PyObject_GetAttrString(f, "__wrapped__"));
    t.tracker.note_constant(function.get());
    return t.calls.call(function.get(), given.args, given.n, given.names);
  }
  KeptArguments args(given);  // with numbers in place of symbols
  for (Py_ssize_t i = 0; i < given.all(); ++i)
    if (!args.add(Object::take(t.numbers.plain(given.args[i])))) return nullptr;
  for (Py_ssize_t i = 0; i < given.all(); ++i)
    if (!guard_cache_key(t, args.data()[i], of_library)) return nullptr;
  const Call c{f, nullptr, args.data(), given.n, given.names};
  const int function = t.sources.find(f);
  t.guards.add_identity(f);
  // Nobody reads how often a library's function was called, and it returns the same for the same constants.
  if (of_library) {
    Object x;
    {
      const HookOff off;
      x = Object::take(PyObject_Vectorcall(f, c.args, static_cast<size_t>(c.n), c.names));
    }
    return x ? t.tracker.track_constant(x.get()) : t.tracker.finish_call(nullptr);
  }
  const Object key = cache_key(f, c.args, c.n, c.names);
  if (!key) return nullptr;
  PyObject* x = cached_result(f, key.get());
  if (function < 0) return t.graph_break(Break::NewCachedFunction, name_of_callable(f));
  if (!x) return t.graph_break(Break::CachedResultMissing, name_of_callable(f));
  if (!note_call(t, c)) return nullptr;
  const int source = t.sources.add(SourceKind::Cached, function, 0, key.get());
  t.guards.add(Check::Present, source);
  return t.tracker.track(x, source);
}

}  // namespace vesta::capture
