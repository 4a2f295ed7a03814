// Functions of functools.lru_cache. A call in the trace could not be taken back: what it stores, and what cache_info()
// tells. So a result that is there is a place that is read, and the call is made again for its count; one that is
// missing is a break, the first time.
#include <algorithm>
#include <cstring>

#include "capture/python/hook/hook.h"
#include "capture/python/sources/cached_result.h"
#include "capture/python/tracer/library.h"
#include "capture/python/tracer/tracer.h"

namespace vesta::capture {
namespace {

// An object that is a key by its identity.
bool has_plain_hash(PyObject* x) { return Py_TYPE(x)->tp_hash == PyBaseObject_Type.tp_hash || PyFunction_Check(x); }

// What functools.lru_cache wraps is of a package or of Python itself, not of the program.
bool is_library_function(PyObject* cached) {
  const Object f = Object::take(PyObject_GetAttrString(cached, "__wrapped__"));
  PyErr_Clear();
  if (!f || !PyFunction_Check(f.get())) return false;
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(f.get()));
  return is_installed_package(code) || is_standard_library(code);
}

// A form of the module typing, which never changes: List, List[int], Optional[T].
bool is_annotation(PyObject* x) {
  const Object module = Object::take(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(x)), "__module__"));
  PyErr_Clear();
  return module && PyUnicode_Check(module.get()) && PyUnicode_CompareWithASCIIString(module.get(), "typing") == 0;
}

// Compared by value, and what it is of is guarded where it was read.
bool is_fact_of_a_tensor(PyObject* x) {
  const std::string_view name = Py_TYPE(x)->tp_name;
  return name == "torch.device" || name == "torch.dtype" || name == "torch.layout" || name == "torch.memory_format";
}

bool is_plain_tuple(PyObject* x) {
  return PyTuple_CheckExact(x) || std::strcmp(Py_TYPE(x)->tp_name, "torch.Size") == 0;
}

// A number that changes from call to call: no key.
bool holds_symbol(PyObject* x) {
  if (is_symbolic(x) || is_symbolic_scalar(x)) return true;
  for (Py_ssize_t i = 0; is_plain_tuple(x) && i < PyTuple_GET_SIZE(x); ++i)
    if (holds_symbol(PyTuple_GET_ITEM(x, i))) return true;
  return false;
}

}  // namespace

bool Tracer::guard_cache_key(PyObject* x, bool of_library) {
  if (is_plain_tuple(x)) {
    if (!operand(x)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(x); ++i)
      if (!guard_cache_key(PyTuple_GET_ITEM(x, i), of_library)) return false;
    return true;
  }
  const int source = sources.find(x);
  if (is_scalar(x) || PyType_Check(x) || is_fact_of_a_tensor(x) ||
      (source >= 0 && sources[source].kind == SourceKind::Constant))
    return true;
  const bool annotation = of_library && is_annotation(x);
  if (!annotation && (source < 0 || !has_plain_hash(x))) return graph_break(Break::CachedFunctionArguments), false;
  if (source >= 0) guard(Check::Is, source, x);
  return true;
}

PyObject* Tracer::call_cached(PyObject* f, PyObject* const* given, Py_ssize_t n, PyObject* names) {
  const Py_ssize_t all = n + (names ? PyTuple_GET_SIZE(names) : 0);
  const bool of_library = is_library_function(f);
  if (of_library && std::any_of(given, given + all, holds_symbol)) {
    const Object function = Object::take(PyObject_GetAttrString(f, "__wrapped__"));
    if (sources.find(function.get()) < 0) Py_XDECREF(track_constant(function.get()));
    return call(function.get(), given, static_cast<size_t>(n), names);
  }
  std::vector<Object> numbers;
  std::vector<PyObject*> args;
  for (Py_ssize_t i = 0; i < all; ++i) {
    numbers.push_back(Object::take(plain(given[i])));
    if (!numbers.back()) return nullptr;
    args.push_back(numbers.back().get());
  }
  args.push_back(nullptr);
  for (Py_ssize_t i = 0; i < all; ++i)
    if (!guard_cache_key(args[static_cast<size_t>(i)], of_library)) return nullptr;
  const int function = sources.find(f);
  if (function >= 0 && sources[function].kind != SourceKind::Constant) guard(Check::Is, function, f);
  // Of a library's function nobody asks what it counts; it gives the same for the same constants.
  if (of_library) {
    PyObject* x = nullptr;
    {
      const HookOff off;
      x = PyObject_Vectorcall(f, args.data(), static_cast<size_t>(n), names);
    }
    if (!x) return finish_call(nullptr);
    PyObject* known = track_constant(x);
    Py_DECREF(x);
    return known;
  }
  const Object key = cache_key(f, args.data(), n, names);
  if (!key) return nullptr;
  PyObject* x = cached_result(f, key.get());
  if (function < 0) return graph_break(Break::NewCachedFunction, name_of_callable(f));
  if (!x) return graph_break(Break::CachedResultMissing, name_of_callable(f));
  CachedCall call{Object::share(f), Object::take(PyTuple_New(n)), Object::take(all > n ? PyDict_New() : nullptr)};
  if (!call.arguments || (all > n && !call.keywords)) return nullptr;
  for (Py_ssize_t i = 0; i < n; ++i) PyTuple_SET_ITEM(call.arguments.get(), i, Py_NewRef(args[static_cast<size_t>(i)]));
  for (Py_ssize_t i = n; i < all; ++i)
    if (PyDict_SetItem(call.keywords.get(), PyTuple_GET_ITEM(names, i - n), args[static_cast<size_t>(i)]) < 0)
      return nullptr;
  cached_calls.push_back(std::move(call));
  const int source = sources.add(SourceKind::Cached, function, 0, key.get());
  guard(Check::Present, source);
  return track(x, source);
}

}  // namespace vesta::capture
