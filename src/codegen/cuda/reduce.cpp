#include "codegen/cuda/reduce.h"

#include "base/check.h"
#include "codegen/cuda/arithmetic.h"
#include "loops/scalar.h"

namespace vesta::codegen {

using loops::Instr;

bool is_arg(const Instr& i) { return i.reduce == ReduceOp::ArgMax || i.reduce == ReduceOp::ArgMin; }

std::string identity_text(const Instr& i) {
  const loops::Scalar x = loops::identity(i.reduce, i.dtype);
  if (is_float(i.dtype)) return literal(x.f, i.dtype);
  return fmt::format("({})0x{:x}ull", value_type_name(i.dtype), static_cast<uint64_t>(x.i));
}

std::string combined_text(const Instr& i, const std::string& a, const std::string& b) {
  const std::string_view t = value_type_name(i.dtype);
  switch (i.reduce) {
    case ReduceOp::Sum: return arithmetic("+", i.dtype, a, b);
    case ReduceOp::Prod: return arithmetic("*", i.dtype, a, b);
    case ReduceOp::Any: return fmt::format("({})({} != 0 || {} != 0)", t, a, b);
    case ReduceOp::All: return fmt::format("({})({} != 0 && {} != 0)", t, a, b);
    case ReduceOp::Max: return fmt::format("v_max<{}>({}, {})", t, a, b);
    case ReduceOp::Min: return fmt::format("v_min<{}>({}, {})", t, a, b);
    default: break;
  }
  VESTA_CHECK(false, "a reduction that combines positions");
}

}  // namespace vesta::codegen
