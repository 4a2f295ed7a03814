// Instructions for variables that functions share through cells.
#include "capture/python/interpreter/handlers.h"

namespace vesta::capture {
namespace {

Step make_cell(Evaluation& e, int oparg) {
  PyObject* initial = slot(e.frame, oparg);
  PyObject* cell = PyCell_New(initial);
  if (cell == nullptr) return Step::Error;
  e.operations.storing(e.frame, oparg);
  slot(e.frame, oparg) = cell;
  e.operations.made(cell);
  Py_XDECREF(initial);
  return Step::Next;
}

Step copy_free_vars(Evaluation& e, int oparg) {
  PyObject* closure = PyFunction_GET_CLOSURE(function_of(e.frame));
  int first = code_of(e.frame)->co_nlocalsplus - oparg;
  for (int i = 0; i < oparg; ++i) {
    e.operations.storing(e.frame, first + i);
    slot(e.frame, first + i) = Py_NewRef(PyTuple_GET_ITEM(closure, i));
  }
  return Step::Next;
}

PyObject* contents(Evaluation& e, int slot) {
  PyObject* x = e.operations.load_cell(e.frame, slot);
  if (x == nullptr && PyErr_Occurred() == nullptr) raise_unbound(e, slot);
  return x;
}

Step load_deref(Evaluation& e, int oparg) { return replace(e, 0, contents(e, oparg)); }

Step store_deref(Evaluation& e, int oparg) {
  return done(e, 1, e.operations.store_cell(e.frame, oparg, peek(e.frame, 1)));
}

Step delete_deref(Evaluation& e, int oparg) {
  if (PyCell_GET(slot(e.frame, oparg)) == nullptr) return raise_unbound(e, oparg);
  return done(e, 0, e.operations.store_cell(e.frame, oparg, nullptr));
}

// A free variable of a class body: the namespace of the body is searched first.
Step load_from(Evaluation& e, int operands, PyObject* space, int slot) {
  Object x;
  int found = find_item(space, local_name_at(e, slot), x.out());
  if (found < 0) return Step::Error;
  return replace(e, operands, found > 0 ? x.release() : contents(e, slot));
}

Step load_classderef(Evaluation& e, int oparg) { return load_from(e, 0, locals_of(e.frame), oparg); }
Step load_from_dict_or_deref(Evaluation& e, int oparg) { return load_from(e, 1, peek(e.frame, 1), oparg); }

constexpr Row kCellRows[] = {
    {"MAKE_CELL", 11, 13, make_cell},
    {"COPY_FREE_VARS", 11, 13, copy_free_vars},
    {"LOAD_DEREF", 11, 13, load_deref},
    {"STORE_DEREF", 11, 13, store_deref},
    {"DELETE_DEREF", 11, 13, delete_deref},
    {"LOAD_CLASSDEREF", 11, 11, load_classderef},
    {"LOAD_FROM_DICT_OR_DEREF", 12, 13, load_from_dict_or_deref},
};

}  // namespace

std::span<const Row> cell_rows() { return kCellRows; }

}  // namespace vesta::capture
