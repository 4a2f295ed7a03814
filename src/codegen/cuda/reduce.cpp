#include "codegen/cuda/reduce.h"

#include <fmt/format.h>

#include "base/check.h"
#include "codegen/cuda/arithmetic.h"

namespace vesta::codegen {

using loops::Instr;

bool is_arg(const Instr& i) { return i.reduce == ReduceOp::ArgMax || i.reduce == ReduceOp::ArgMin; }

std::string identity_text(const Instr& i) {
  const bool low = i.reduce == ReduceOp::Max || i.reduce == ReduceOp::ArgMax;
  switch (i.reduce) {
    case ReduceOp::Sum:
    case ReduceOp::Any: return "0";
    case ReduceOp::Prod:
    case ReduceOp::All: return "1";
    default: break;
  }
  const DType t = i.dtype;
  if (t == DType::F64) return low ? "bits_double(0xfff0000000000000ull)" : "bits_double(0x7ff0000000000000ull)";
  if (is_float(t)) return low ? "bits_float(0xff800000u)" : "bits_float(0x7f800000u)";
  if (t == DType::Bool) return low ? "false" : "true";
  const int bits = static_cast<int>(8 * element_size(t));
  if (!is_signed(t)) return fmt::format("({}){}", stored_type(t), low ? "0" : "-1");
  const std::string least = fmt::format("(i64)0x{:x}ull", ~0ull << (bits - 1));
  return fmt::format("({}){}", stored_type(t), low ? least : "~(" + least + ")");
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
