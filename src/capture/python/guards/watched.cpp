#include "capture/python/guards/watched.h"

#include <unordered_map>

namespace vesta::capture {
namespace {

// The object that a C function is bound to, unless it never dies.
PyObject* bound_object(PyObject* x) {
  PyObject* self = PyCFunction_Check(x) ? reinterpret_cast<PyCFunctionObject*>(x)->m_self : nullptr;
  if (!self || PyModule_Check(self)) return nullptr;
  if (PyType_Check(self) && !(reinterpret_cast<PyTypeObject*>(self)->tp_flags & Py_TPFLAGS_HEAPTYPE)) return nullptr;
  return self;
}

bool may_go(PyObject* x) {
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(x)) || PyCode_Check(x)) return false;
  if (PyType_Check(x)) return (reinterpret_cast<PyTypeObject*>(x)->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0;
  return !PyCFunction_Check(x) || bound_object(x);
}

}  // namespace

Watched::Watched(std::span<std::vector<Object>* const> holders) : gone_(std::make_shared<bool>(false)) {
  std::unordered_map<PyObject*, Py_ssize_t> held;
  for (const std::vector<Object>* holder : holders)
    for (const Object& o : *holder)
      if (o) ++held[o.get()];
  const auto owned_by_others = [&](PyObject* x) {
    const auto it = held.find(x);
    return it != held.end() && Py_REFCNT(x) > it->second;
  };
  references_ = WeakReferences([gone = gone_] { *gone = true; });
  for (const auto& [x, count] : held)
    if (may_go(x) && owned_by_others(x) && references_.add(x)) objects_.insert(x);
  // A bound function keeps its object alive.
  std::vector<PyObject*> bound;
  for (PyObject* x : objects_)
    if (PyObject* self = bound_object(x); self && owned_by_others(self)) bound.push_back(self);
  objects_.insert(bound.begin(), bound.end());
  for (std::vector<Object>* holder : holders)
    std::erase_if(*holder, [&](const Object& o) { return o && objects_.contains(o.get()); });
}

}  // namespace vesta::capture
