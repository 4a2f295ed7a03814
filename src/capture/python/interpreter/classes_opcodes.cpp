// Instructions of class and module bodies.
#include "capture/python/interpreter/handlers.h"

namespace vesta::capture {
namespace {

Step load_build_class(Evaluation& e, int) {
  static PyObject* const name = PyUnicode_InternFromString("__build_class__");
  Object x;
  if (find_item(builtins_of(e.frame), name, x.out()) == 0)
    PyErr_SetString(PyExc_NameError, "__build_class__ not found");
  return replace(e, 0, x.release());
}

Step setup_annotations(Evaluation& e, int) {
  static PyObject* const name = PyUnicode_InternFromString("__annotations__");
  PyObject* space = locals_of(e.frame);
  if (space == nullptr) {
    PyErr_SetString(PyExc_SystemError, "no locals found when setting up annotations");
    return Step::Error;
  }
  Object annotations;
  int found = find_item(space, name, annotations.out());
  if (found != 0) return found < 0 ? Step::Error : Step::Next;
  annotations = Object::take(PyDict_New());
  if (!annotations) return Step::Error;
  return done(e, 0,
              PyDict_CheckExact(space) ? PyDict_SetItem(space, name, annotations.get())
                                       : PyObject_SetItem(space, name, annotations.get()));
}

constexpr Row rows[] = {
    {"LOAD_BUILD_CLASS", 11, 13, load_build_class},
    {"SETUP_ANNOTATIONS", 11, 13, setup_annotations},
};

}  // namespace

std::span<const Row> class_rows() { return rows; }

}  // namespace vesta::capture
