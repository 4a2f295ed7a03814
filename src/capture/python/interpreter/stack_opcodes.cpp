// Instructions for the value stack and local variables.
#include "capture/python/interpreter/handlers.h"

namespace vesta::capture {
namespace {

Step nothing(Evaluation&, int) { return Step::Next; }

Step resume_(Evaluation& e, int oparg) {  // 2 and 3: after yield from or await, whose inner frames handle pending calls
  if ((oparg & 3) < 2 && e.operations.pending(e.thread) < 0) return Step::Error;
  return Step::Next;
}

Step pop_top(Evaluation& e, int) { return done(e, 1, 0); }

Step push_null(Evaluation& e, int) {
  push(e.frame, nullptr);
  return Step::Next;
}

Step copy(Evaluation& e, int oparg) {
  push(e.frame, Py_XNewRef(peek(e.frame, oparg)));
  return Step::Next;
}

Step swap(Evaluation& e, int oparg) {
  std::swap(peek(e.frame, 1), peek(e.frame, oparg));
  return Step::Next;
}

Step load_const(Evaluation& e, int oparg) { return replace(e, 0, Py_NewRef(constant_at(e, oparg))); }

Step load_slot(Evaluation& e, int slot) {
  e.operations.share_cell(e.frame, slot);
  PyObject* x = Py_XNewRef(capture::slot(e.frame, slot));
  if (x == nullptr) raise_unbound(e, slot);
  return replace(e, 0, x);
}

// From 3.13 on, LOAD_FAST also pushes a cell itself, for a closure. That reads no variable.
bool holds_cell(const Evaluation& e, int slot) {
  constexpr int cell_or_free = 0x40 | 0x80;  // of co_localspluskinds
  return (PyBytes_AS_STRING(code_of(e.frame)->co_localspluskinds)[slot] & cell_or_free) != 0;
}

bool load_variable(Evaluation& e, int slot) {
  if (python_minor >= 13 && holds_cell(e, slot)) return load_slot(e, slot) == Step::Next;
  PyObject* x = e.operations.load_fast(e.frame, slot);
  if (x == nullptr && PyErr_Occurred() == nullptr) raise_unbound(e, slot);
  return replace(e, 0, x) == Step::Next;
}

void store_variable(Evaluation& e, int slot, PyObject* x) {
  e.operations.storing(e.frame, slot);
  Py_XSETREF(capture::slot(e.frame, slot), x);
}

Step load_fast(Evaluation& e, int oparg) { return load_variable(e, oparg) ? Step::Next : Step::Error; }

Step load_fast_and_clear(Evaluation& e,
                         int oparg) {  // the variable that an inlined comprehension puts aside; it may be unbound
  PyObject* x = e.operations.load_fast(e.frame, oparg);
  if (x == nullptr && PyErr_Occurred() != nullptr) return Step::Error;
  store_variable(e, oparg, nullptr);
  push(e.frame, x);
  return Step::Next;
}

Step load_fast_load_fast(Evaluation& e, int oparg) {
  return load_variable(e, oparg >> 4) && load_variable(e, oparg & 15) ? Step::Next : Step::Error;
}

Step store_fast(Evaluation& e, int oparg) {
  store_variable(e, oparg, pop(e.frame));
  return Step::Next;
}

Step store_fast_load_fast(Evaluation& e, int oparg) {
  store_variable(e, oparg >> 4, pop(e.frame));
  return load_variable(e, oparg & 15) ? Step::Next : Step::Error;
}

Step store_fast_store_fast(Evaluation& e, int oparg) {
  store_variable(e, oparg >> 4, pop(e.frame));
  store_variable(e, oparg & 15, pop(e.frame));
  return Step::Next;
}

Step delete_fast(Evaluation& e, int oparg) {
  if (!e.operations.is_bound(e.frame, oparg)) return raise_unbound(e, oparg);
  store_variable(e, oparg, nullptr);
  return Step::Next;
}

constexpr Row kStackRows[] = {
    {"NOP", 11, 13, nothing},
    {"RESUME", 11, 13, resume_},
    {"POP_TOP", 11, 13, pop_top},
    {"PUSH_NULL", 11, 13, push_null},
    {"COPY", 11, 13, copy},
    {"SWAP", 11, 13, swap},
    {"LOAD_CONST", 11, 13, load_const},
    {"LOAD_CLOSURE", 11, 12, load_slot},
    {"LOAD_FAST", 11, 13, load_fast},
    {"LOAD_FAST_CHECK", 12, 13, load_fast},
    {"LOAD_FAST_AND_CLEAR", 12, 13, load_fast_and_clear},
    {"LOAD_FAST_LOAD_FAST", 13, 13, load_fast_load_fast},
    {"STORE_FAST", 11, 13, store_fast},
    {"STORE_FAST_LOAD_FAST", 13, 13, store_fast_load_fast},
    {"STORE_FAST_STORE_FAST", 13, 13, store_fast_store_fast},
    {"DELETE_FAST", 11, 13, delete_fast},
};

}  // namespace

std::span<const Row> stack_rows() { return kStackRows; }

}  // namespace vesta::capture
