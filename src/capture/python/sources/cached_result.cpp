#include "capture/python/sources/cached_result.h"

#include "capture/python/values/class_sets.h"

namespace vesta::capture {
namespace {

// Modules/_functoolsmodule.c, the same in CPython 3.11 to 3.13.
struct Link {
  PyObject_HEAD Link *prev, *next;
  Py_hash_t hash;
  PyObject *key, *result;
};
struct CachedFunction {
  Link root;
  ternaryfunc call;
  int typed;
  PyObject* cache;  // a dict of results or, of a cache that has a size, of links
  Py_ssize_t hits;
  PyObject* function;
  Py_ssize_t most;  // -1: no limit
  Py_ssize_t misses;
  PyObject* mark;  // between positional and keyword arguments
  PyTypeObject* link_type;
  PyObject *info_type, *dict, *weak_references;
};

const CachedFunction* layout_of(PyObject* x) {
  return is_cached_function(x) && Py_TYPE(x)->tp_basicsize == sizeof(CachedFunction)
             ? reinterpret_cast<const CachedFunction*>(x)
             : nullptr;
}

}  // namespace

bool is_cached_function(PyObject* x) { return is_of(x, ClassSet::CachedFunctions); }

Object cache_key(PyObject* function, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  const CachedFunction* f = layout_of(function);
  const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
  if (f && !f->typed && n == 1 && named == 0 && (PyLong_CheckExact(args[0]) || PyUnicode_CheckExact(args[0])))
    return Object::share(args[0]);
  const Object parts = Object::take(PyList_New(0));
  bool ok = f && parts;
  auto add = [&](PyObject* x) { ok = ok && PyList_Append(parts.get(), x) == 0; };
  for (Py_ssize_t i = 0; i < n; ++i) add(args[i]);
  if (named > 0 && f) add(f->mark);
  for (Py_ssize_t i = 0; i < named; ++i) {
    add(PyTuple_GET_ITEM(names, i));
    add(args[n + i]);
  }
  for (Py_ssize_t i = 0; f && f->typed && i < n + named; ++i) add(reinterpret_cast<PyObject*>(Py_TYPE(args[i])));
  if (!f) PyErr_SetString(PyExc_TypeError, "it is not a function made by functools.lru_cache");
  return Object::take(ok ? PyList_AsTuple(parts.get()) : nullptr);
}

PyObject* cached_result(PyObject* function, PyObject* key) {
  const CachedFunction* f = layout_of(function);
  if (!f || !f->cache || !PyDict_CheckExact(f->cache)) return nullptr;
  PyObject* found = PyDict_GetItemWithError(f->cache, key);
  if (!found) PyErr_Clear();
  if (!found || f->most < 0) return found;
  return Py_TYPE(found) == f->link_type ? reinterpret_cast<Link*>(found)->result : nullptr;
}

}  // namespace vesta::capture
