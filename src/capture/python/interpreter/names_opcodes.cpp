// Instructions for names of modules and class bodies, and for globals.
#include "capture/python/interpreter/handlers.h"

namespace vesta::capture {
namespace {

PyObject* namespace_of(const Evaluation& e, const char* doing, PyObject* name) {
  PyObject* space = locals_of(e.frame);
  if (space == nullptr) PyErr_Format(PyExc_SystemError, "no locals %s %R", doing, name);
  return space;
}

// A global as LOAD_NAME reads it: without __getitem__ of globals that are a subclass of dict.
PyObject* outer_name(Evaluation& e, PyObject* name) {
  PyObject* globals = globals_of(e.frame);
  if (PyDict_CheckExact(globals)) return e.operations.load_global(e.frame, name);
  if (PyObject* x = PyDict_GetItemWithError(globals, name)) return Py_NewRef(x);
  if (PyErr_Occurred() != nullptr) return nullptr;
  Object x;
  int found = find_item(builtins_of(e.frame), name, x.out());
  if (found == 0) raise_name_error(name);
  return x.release();
}

Step load_name(Evaluation& e, int oparg) {
  PyObject* name = name_at(e, oparg);
  PyObject* space = namespace_of(e, "when loading", name);
  if (space == nullptr) return Step::Error;
  Object x;
  int found = find_item(space, name, x.out());
  if (found < 0) return Step::Error;
  return replace(e, 0, found > 0 ? x.release() : outer_name(e, name));
}

Step store_name(Evaluation& e, int oparg) {
  PyObject* name = name_at(e, oparg);
  PyObject* space = namespace_of(e, "found when storing", name);
  if (space == nullptr) return Step::Error;
  PyObject* x = peek(e.frame, 1);
  return done(e, 1, PyObject_SetItem(space, name, x));
}

Step delete_name(Evaluation& e, int oparg) {
  PyObject* name = name_at(e, oparg);
  PyObject* space = namespace_of(e, "when deleting", name);
  if (space == nullptr) return Step::Error;
  if (PyObject_DelItem(space, name) == 0) return Step::Next;
  raise_name_error(name);
  return Step::Error;
}

Step load_locals(Evaluation& e, int) {
  PyObject* space = locals_of(e.frame);
  if (space == nullptr) PyErr_SetString(PyExc_SystemError, "no locals found");
  return replace(e, 0, Py_XNewRef(space));
}

Step load_from_dict_or_globals(Evaluation& e, int oparg) {
  PyObject* name = name_at(e, oparg);
  Object x;
  int found = find_item(peek(e.frame, 1), name, x.out());
  if (found < 0) return Step::Error;
  return replace(e, 1, found > 0 ? x.release() : e.operations.load_global(e.frame, name));
}

Step load_global(Evaluation& e, int oparg) {  // the low bit: push a NULL as well, for a call
  PyObject* x = e.operations.load_global(e.frame, name_at(e, oparg >> 1));
  if (x == nullptr) return Step::Error;
  if ((oparg & 1) != 0 && python_minor < 13) push(e.frame, nullptr);
  push(e.frame, x);
  if ((oparg & 1) != 0 && python_minor >= 13) push(e.frame, nullptr);
  return Step::Next;
}

Step store_global(Evaluation& e, int oparg) {
  return done(e, 1, e.operations.store_global(e.frame, name_at(e, oparg), peek(e.frame, 1)));
}

Step delete_global(Evaluation& e, int oparg) {
  return done(e, 0, e.operations.store_global(e.frame, name_at(e, oparg), nullptr));
}

Step load_build_class(Evaluation& e, int) {
  Object x;
  if (find_item(builtins_of(e.frame), "__build_class__"_name, x.out()) == 0)
    PyErr_SetString(PyExc_NameError, "__build_class__ not found");
  return replace(e, 0, x.release());
}

Step setup_annotations(Evaluation& e, int) {
  PyObject* space = locals_of(e.frame);
  if (space == nullptr) return fail(PyExc_SystemError, "no locals found when setting up annotations");
  Object annotations;
  int found = find_item(space, "__annotations__"_name, annotations.out());
  if (found != 0) return found < 0 ? Step::Error : Step::Next;
  annotations = Object::take(PyDict_New());
  if (!annotations) return Step::Error;
  return done(e, 0, PyObject_SetItem(space, "__annotations__"_name, annotations.get()));
}

constexpr Row kNameRows[] = {
    {"LOAD_NAME", 11, 13, load_name},
    {"STORE_NAME", 11, 13, store_name},
    {"DELETE_NAME", 11, 13, delete_name},
    {"LOAD_LOCALS", 12, 13, load_locals},
    {"LOAD_FROM_DICT_OR_GLOBALS", 12, 13, load_from_dict_or_globals},
    {"LOAD_GLOBAL", 11, 13, load_global},
    {"STORE_GLOBAL", 11, 13, store_global},
    {"DELETE_GLOBAL", 11, 13, delete_global},
    {"LOAD_BUILD_CLASS", 11, 13, load_build_class},
    {"SETUP_ANNOTATIONS", 11, 13, setup_annotations},
};

}  // namespace

std::span<const Row> name_rows() { return kNameRows; }

}  // namespace vesta::capture
