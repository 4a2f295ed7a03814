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

constexpr Row rows[] = {
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
};

}  // namespace

std::span<const Row> jump_rows() { return rows; }

}  // namespace vesta::capture
