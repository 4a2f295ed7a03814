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

Step format_value(Evaluation& e, int oparg) {  // bits of oparg: 3 is the conversion, 4 a format specification
  int count = (oparg & 4) != 0 ? 2 : 1;
  auto kind = static_cast<Operations::Conversion>(oparg & 3);
  Object value = Object::share(peek(e.frame, count));
  if (kind != Operations::Conversion::None) value = Object::take(e.operations.convert(value.get(), kind));
  if (!value) return Step::Error;
  return replace(e, count, e.operations.format(value.get(), count == 2 ? peek(e.frame, 1) : nullptr));
}

Step convert_value(Evaluation& e, int oparg) {
  return replace(e, 1, e.operations.convert(peek(e.frame, 1), static_cast<Operations::Conversion>(oparg)));
}

Step format_simple(Evaluation& e, int) { return replace(e, 1, e.operations.format(peek(e.frame, 1), nullptr)); }

Step format_with_spec(Evaluation& e, int) {
  return replace(e, 2, e.operations.format(peek(e.frame, 2), peek(e.frame, 1)));
}

constexpr Row kOperatorRows[] = {
    {"UNARY_POSITIVE", 11, 11, unary<Operations::Unary::Positive>},
    {"UNARY_NEGATIVE", 11, 13, unary<Operations::Unary::Negative>},
    {"UNARY_NOT", 11, 13, unary<Operations::Unary::Not>},
    {"UNARY_INVERT", 11, 13, unary<Operations::Unary::Invert>},
    {"BINARY_OP", 11, 13, binary_op},
    {"TO_BOOL", 13, 13, to_bool},
    {"COMPARE_OP", 11, 13, compare_op},
    {"IS_OP", 11, 13, is_op},
    {"CONTAINS_OP", 11, 13, contains_op},
    {"FORMAT_VALUE", 11, 12, format_value},
    {"CONVERT_VALUE", 13, 13, convert_value},
    {"FORMAT_SIMPLE", 13, 13, format_simple},
    {"FORMAT_WITH_SPEC", 13, 13, format_with_spec},
};

}  // namespace

std::span<const Row> operator_rows() { return kOperatorRows; }

}  // namespace vesta::capture
