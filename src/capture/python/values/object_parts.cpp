#include "capture/python/values/object_parts.h"

#include "capture/python/object.h"

namespace vesta::capture {
namespace {

uint64_t changes = 1;

#if PY_VERSION_HEX >= 0x030c0000

// The definition of a getset descriptor that the class has under this name. nullptr: it has something else there.
PyGetSetDef* getset_of(PyTypeObject* type, PyObject* name) {
  PyObject* const descriptor = _PyType_Lookup(type, name);
  if (!descriptor || !Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)) return nullptr;
  return reinterpret_cast<PyGetSetDescrObject*>(descriptor)->d_getset;
}

setter set_class = nullptr, set_dict = nullptr;  // the interpreter's

int set_class_noted(PyObject* object, PyObject* value, void* closure) {
  ++changes;
  return set_class(object, value, closure);
}
int set_dict_noted(PyObject* object, PyObject* value, void* closure) {
  ++changes;
  return set_dict(object, value, closure);
}

// Whether the interpreter's setters are known, and `__class__` is noted.
bool begin() {
  PyGetSetDef* const of_class = getset_of(&PyBaseObject_Type, "__class__"_name);
  const Object probe = Object::take(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(){}", "probe"));
  if (!probe) PyErr_Clear();
  PyGetSetDef* const of_dict =
      probe ? getset_of(reinterpret_cast<PyTypeObject*>(probe.get()), "__dict__"_name) : nullptr;
  if (!of_class || !of_class->set || !of_dict || !of_dict->set) return false;
  set_class = of_class->set;
  of_class->set = set_class_noted;
  set_dict = of_dict->set;
  return true;
}

#endif

}  // namespace

uint64_t part_changes() { return changes; }

#if PY_VERSION_HEX >= 0x030c0000

bool notes_parts_of(PyTypeObject* type) {
  static const bool begun = begin();
  PyGetSetDef* const of_dict = begun ? getset_of(type, "__dict__"_name) : nullptr;
  if (!of_dict) return false;
  // The interpreter has two definitions: for classes with and without weak references of their own.
  if (of_dict->set == set_dict) of_dict->set = set_dict_noted;
  return of_dict->set == set_dict_noted;
}

#else

bool notes_parts_of(PyTypeObject*) { return false; }

#endif

}  // namespace vesta::capture
