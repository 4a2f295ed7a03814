// Instructions of formatted strings.
#include "capture/python/interpreter/handlers.h"

namespace vesta::capture {
namespace {

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

constexpr Row rows[] = {
    {"FORMAT_VALUE", 11, 12, format_value},
    {"CONVERT_VALUE", 13, 13, convert_value},
    {"FORMAT_SIMPLE", 13, 13, format_simple},
    {"FORMAT_WITH_SPEC", 13, 13, format_with_spec},
};

}  // namespace

std::span<const Row> formatting_rows() { return rows; }

}  // namespace vesta::capture
