// What the files *_opcodes.cpp share: rows of handlers, operands and lookups. A handler is called with `position` at
// the next instruction, and sets it to jump. If an operation fails, it returns Error and leaves the operands on the
// stack.
#pragma once

#include <span>

#include "capture/python/interpreter/evaluate.h"
#include "capture/python/object.h"

namespace vesta::capture {

using Execute = Step (*)(Evaluation& e, int oparg);

// An instruction of Python 3.`first` to 3.`last`.
struct Row {
  const char* name;
  int first, last;
  Execute handler;
};

inline constexpr int python_minor = PY_MINOR_VERSION;

std::span<const Row> stack_rows();
std::span<const Row> name_rows();
std::span<const Row> cell_rows();
std::span<const Row> attribute_rows();
std::span<const Row> operator_rows();
std::span<const Row> container_rows();
std::span<const Row> jump_rows();
std::span<const Row> call_rows();
std::span<const Row> function_rows();
std::span<const Row> intrinsic_rows();
std::span<const Row> exception_rows();
std::span<const Row> generator_rows();
std::span<const Row> match_rows();
std::span<const Row> import_rows();

inline PyObject* name_at(const Evaluation& e, int i) { return PyTuple_GET_ITEM(code_of(e.frame)->co_names, i); }
inline PyObject* constant_at(const Evaluation& e, int i) { return PyTuple_GET_ITEM(code_of(e.frame)->co_consts, i); }
inline PyObject* local_name_at(const Evaluation& e, int i) {
  return PyTuple_GET_ITEM(code_of(e.frame)->co_localsplusnames, i);
}

inline PyObject* boolean(bool x) { return Py_NewRef(x ? Py_True : Py_False); }

// Takes n operands off the stack.
inline void drop(Evaluation& e, int n) {
  for (; n > 0; --n) {
    PyObject* x = pop(e.frame);
    Py_XDECREF(x);
  }
}

// Sets an error. The result is what a handler returns for it, or -1.
struct Failed {
  operator Step() const { return Step::Error; }
  operator int() const { return -1; }
};
template <class... Args>
Failed fail(PyObject* type, const char* format, Args... args) {
  PyErr_Format(type, format, args...);
  return {};
}

// Replaces n operands by the result (stolen); nullptr is an error.
inline Step replace(Evaluation& e, int n, PyObject* result) {
  if (result == nullptr) return Step::Error;
  drop(e, n);
  push(e.frame, result);
  return Step::Next;
}
inline Step done(Evaluation& e, int n, int status) {
  if (status < 0) return Step::Error;
  drop(e, n);
  return Step::Next;
}

// Whether a callee may overwrite the stack slot before its arguments for a while. It may not in a generator, whose
// stack the garbage collector traverses.
inline size_t offset_flag(const Evaluation& e) { return is_generator(e.frame) ? 0 : PY_VECTORCALL_ARGUMENTS_OFFSET; }

// Looks a key up in a mapping. 1: found, 0: not there, -1: an error is set.
int find_item(PyObject* mapping, PyObject* key, PyObject** out);
// Looks an attribute up. 1: found, 0: not there, -1: an error is set.
int find_attr(PyObject* owner, PyObject* name, PyObject** out);
// A callable as messages such as "name() argument after * ..." name it. New reference.
PyObject* describe_callable(PyObject* callable);
void raise_name_error(PyObject* name);
// Executes `from module import *` in the frame's namespace.
int import_all(const Evaluation& e, PyObject* module);
// Sets the ImportError of `from module import name` for a name that the module lacks.
void raise_cannot_import(PyObject* module, PyObject* name);
// Splits an exception into the part that an `except*` clause handles (wrapped in a group if it is a plain exception)
// and the rest. Either is None if it is empty. -1: an error is set.
int split_group(PyObject* exception, PyObject* types, Object& match, Object& rest);
// The exception to raise after all clauses. `raised` lists what each clause left (None: nothing). The parts of
// `original` that no clause handled keep its structure. None: nothing is raised.
PyObject* prep_reraise_star(PyObject* original, PyObject* raised);
// The variable of a slot has no value.
Step raise_unbound(const Evaluation& e, int slot);

}  // namespace vesta::capture
