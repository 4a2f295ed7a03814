#include "capture/python/interpreter/handlers.h"

namespace vesta::capture {
namespace {

template <Operations::Unary op>
Step unary(Evaluation& e, int) {
  return replace(e, 1, e.operations.unary(op, peek(e.frame, 1)));
}

Step binary_op(Evaluation& e, int oparg) {
  return replace(e, 2, e.operations.binary(oparg, peek(e.frame, 2), peek(e.frame, 1)));
}

Step to_bool(Evaluation& e, int) {
  int truth = e.operations.is_true(peek(e.frame, 1));
  return truth < 0 ? Step::Error : replace(e, 1, boolean(truth > 0));
}

Step compare_op(Evaluation& e, int oparg) {
  int op = python_minor == 11 ? oparg : python_minor == 12 ? oparg >> 4 : oparg >> 5;
  Object x = Object::take(e.operations.compare(op, peek(e.frame, 2), peek(e.frame, 1)));
  if (!x) return Step::Error;
  if (python_minor >= 13 && (oparg & 16) != 0) {  // the result is for a jump
    int truth = e.operations.is_true(x.get());
    if (truth < 0) return Step::Error;
    x = Object::take(boolean(truth > 0));
  }
  return replace(e, 2, x.release());
}

Step is_op(Evaluation& e, int oparg) {
  int same = e.operations.is_same(peek(e.frame, 2), peek(e.frame, 1));
  return same < 0 ? Step::Error : replace(e, 2, boolean((same > 0) != (oparg != 0)));
}

Step contains_op(Evaluation& e, int oparg) {
  int found = e.operations.contains(peek(e.frame, 1), peek(e.frame, 2));
  return found < 0 ? Step::Error : replace(e, 2, boolean((found > 0) != (oparg != 0)));
}

constexpr Row rows[] = {
    {"UNARY_POSITIVE", 11, 11, unary<Operations::Unary::Positive>},
    {"UNARY_NEGATIVE", 11, 13, unary<Operations::Unary::Negative>},
    {"UNARY_NOT", 11, 13, unary<Operations::Unary::Not>},
    {"UNARY_INVERT", 11, 13, unary<Operations::Unary::Invert>},
    {"BINARY_OP", 11, 13, binary_op},
    {"TO_BOOL", 13, 13, to_bool},
    {"COMPARE_OP", 11, 13, compare_op},
    {"IS_OP", 11, 13, is_op},
    {"CONTAINS_OP", 11, 13, contains_op},
};

}  // namespace

std::span<const Row> operator_rows() { return rows; }

}  // namespace vesta::capture
