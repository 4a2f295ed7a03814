// What the families of instructions share. A handler finds `position` at the next instruction and moves it to jump;
// when an operation fails it returns Error and leaves the operands on the stack.
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
std::span<const Row> subscript_rows();
std::span<const Row> container_rows();
std::span<const Row> jump_rows();
std::span<const Row> loop_rows();
std::span<const Row> call_rows();
std::span<const Row> function_rows();
std::span<const Row> intrinsic_rows();
std::span<const Row> exception_rows();
std::span<const Row> with_rows();
std::span<const Row> generator_rows();
std::span<const Row> match_rows();
std::span<const Row> import_rows();
std::span<const Row> formatting_rows();
std::span<const Row> class_rows();

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

// The result (stolen) in place of n operands; nullptr is an error.
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

// Arguments on the stack may be given to a callee that overwrites the slot before them for a while, except where the
// garbage collector looks at the stack: in a generator.
inline size_t offset_flag(const Evaluation& e) { return is_generator(e.frame) ? 0 : PY_VECTORCALL_ARGUMENTS_OFFSET; }

// The value of a plain mapping lookup: 1 found, 0 not there, -1 error.
int find_item(PyObject* mapping, PyObject* key, PyObject** out);
// As getattr with a default of nullptr: 1, 0, -1.
int find_attr(PyObject* owner, PyObject* name, PyObject** out);
// "name() argument after * ..." names a callable so. New reference.
PyObject* describe_callable(PyObject* callable);
void raise_name_error(PyObject* name);
// The variable of a slot has no value.
void raise_unbound(const Evaluation& e, int slot);

}  // namespace vesta::capture
