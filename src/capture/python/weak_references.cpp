#include "capture/python/weak_references.h"

#include <utility>

namespace vesta::capture {
namespace {

using Told = std::function<void()>;

PyObject* one_dies(PyObject* self, PyObject*) {
  if (auto* told = static_cast<Told*>(PyCapsule_GetPointer(self, nullptr))) (*told)();
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NONE;
}

PyMethodDef method = {"one_dies", one_dies, METH_O, nullptr};

}  // namespace

WeakReferences::WeakReferences(std::function<void()> when_one_dies) {
  auto* told = new Told(std::move(when_one_dies));
  const Object self = Object::take(
      PyCapsule_New(told, nullptr, [](PyObject* x) { delete static_cast<Told*>(PyCapsule_GetPointer(x, nullptr)); }));
  if (!self) delete told;
  callback_ = Object::take(self ? PyCFunction_New(&method, self.get()) : nullptr);
  if (!callback_) PyErr_Clear();
}

bool WeakReferences::add(PyObject* x) {
  Object reference = Object::take(callback_ ? PyWeakref_NewRef(x, callback_.get()) : nullptr);
  if (!reference) return PyErr_Clear(), false;
  references_.push_back(std::move(reference));
  return true;
}

bool WeakReferences::is_one(const PyWeakReference* reference) {
  PyObject* callback = reference->wr_callback;
  return callback && PyCFunction_Check(callback) && reinterpret_cast<PyCFunctionObject*>(callback)->m_ml == &method;
}

}  // namespace vesta::capture
