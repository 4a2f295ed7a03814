#include "capture/python/interpreter/handlers.h"

namespace vesta::capture {
namespace {

Step forward(Evaluation& e, int oparg) {
  e.position += oparg;
  return Step::Next;
}

Step backward(Evaluation& e, int oparg) {
  e.position -= oparg;
  return e.operations.pending(e.thread) < 0 ? Step::Error : Step::Next;
}

Step backward_no_interrupt(Evaluation& e, int oparg) {
  e.position -= oparg;
  return Step::Next;
}

Step jump(Evaluation& e, int oparg, bool back) { return back ? backward(e, oparg) : forward(e, oparg); }

template <bool when, bool back>
Step pop_jump_if(Evaluation& e, int oparg) {
  int truth = e.operations.is_true(peek(e.frame, 1));
  if (truth < 0) return Step::Error;
  drop(e, 1);
  return (truth > 0) == when ? jump(e, oparg, back) : Step::Next;
}

template <bool when, bool back>
Step pop_jump_if_none(Evaluation& e, int oparg) {
  bool none = peek(e.frame, 1) == Py_None;
  drop(e, 1);
  return none == when ? jump(e, oparg, back) : Step::Next;
}

template <bool when>
Step jump_if_or_pop(Evaluation& e, int oparg) {
  int truth = e.operations.is_true(peek(e.frame, 1));
  if (truth < 0) return Step::Error;
  if ((truth > 0) == when) return forward(e, oparg);
  drop(e, 1);
  return Step::Next;
}

Step get_iter(Evaluation& e, int) { return replace(e, 1, e.operations.get_iter(peek(e.frame, 1))); }

Step for_iter(Evaluation& e, int oparg) {
  PyObject* x = e.operations.next(peek(e.frame, 1));
  if (x != nullptr) {
    push(e.frame, x);
    return Step::Next;
  }
  if (PyErr_Occurred() != nullptr) return Step::Error;
  drop(e, 1);
  // The target would pop the iterator: it is END_FOR, in 3.13 followed by POP_TOP.
  constexpr int skipped = python_minor - 11;
  e.position += oparg + skipped;
  return Step::Next;
}

Step end_for(Evaluation& e, int) { return done(e, python_minor >= 13 ? 1 : 2, 0); }

constexpr Row kJumpRows[] = {
    {"JUMP_FORWARD", 11, 13, forward},
    {"JUMP_BACKWARD", 11, 13, backward},
    {"JUMP_BACKWARD_NO_INTERRUPT", 11, 13, backward_no_interrupt},
    {"POP_JUMP_FORWARD_IF_TRUE", 11, 11, pop_jump_if<true, false>},
    {"POP_JUMP_FORWARD_IF_FALSE", 11, 11, pop_jump_if<false, false>},
    {"POP_JUMP_BACKWARD_IF_TRUE", 11, 11, pop_jump_if<true, true>},
    {"POP_JUMP_BACKWARD_IF_FALSE", 11, 11, pop_jump_if<false, true>},
    {"POP_JUMP_FORWARD_IF_NONE", 11, 11, pop_jump_if_none<true, false>},
    {"POP_JUMP_FORWARD_IF_NOT_NONE", 11, 11, pop_jump_if_none<false, false>},
    {"POP_JUMP_BACKWARD_IF_NONE", 11, 11, pop_jump_if_none<true, true>},
    {"POP_JUMP_BACKWARD_IF_NOT_NONE", 11, 11, pop_jump_if_none<false, true>},
    {"JUMP_IF_TRUE_OR_POP", 11, 11, jump_if_or_pop<true>},
    {"JUMP_IF_FALSE_OR_POP", 11, 11, jump_if_or_pop<false>},
    {"POP_JUMP_IF_TRUE", 12, 13, pop_jump_if<true, false>},
    {"POP_JUMP_IF_FALSE", 12, 13, pop_jump_if<false, false>},
    {"POP_JUMP_IF_NONE", 12, 13, pop_jump_if_none<true, false>},
    {"POP_JUMP_IF_NOT_NONE", 12, 13, pop_jump_if_none<false, false>},
    {"GET_ITER", 11, 13, get_iter},
    {"FOR_ITER", 11, 13, for_iter},
    {"END_FOR", 12, 13, end_for},
};

}  // namespace

std::span<const Row> jump_rows() { return kJumpRows; }

}  // namespace vesta::capture
