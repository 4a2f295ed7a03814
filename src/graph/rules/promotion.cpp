#include "graph/rules/promotion.h"

#include <limits>

#include "base/check.h"

namespace vesta::graph {
namespace {
thread_local DType default_type = DType::F32;
}

DType default_dtype() { return default_type; }
void set_default_dtype(DType t) { default_type = t; }

TypeCategory category(DType t) {
  if (t == DType::Bool) return kBoolType;
  if (is_complex(t)) return kComplexType;
  if (is_float8(t)) return kFloat8Type;
  if (is_float(t)) return kFloatType;
  return kIntegerType;
}

DType complex_of(DType t) {
  switch (t) {
    case DType::F16: return DType::C32;
    case DType::F64: return DType::C128;
    case DType::C32:
    case DType::C64:
    case DType::C128: return t;
    default: return DType::C64;
  }
}

bool is_number(const Arg& a) {
  return std::holds_alternative<bool>(a) || std::holds_alternative<Expr>(a) || std::holds_alternative<double>(a) ||
         std::holds_alternative<std::complex<double>>(a);
}

DType number_type(const Arg& a) {
  if (std::holds_alternative<bool>(a)) return DType::Bool;
  if (std::holds_alternative<Expr>(a)) return DType::I64;
  if (std::holds_alternative<double>(a)) return default_dtype();
  VESTA_CHECK(std::holds_alternative<std::complex<double>>(a), "not a number");
  return complex_of(default_dtype());
}

void ResultType::join(int rank, DType t) {
  type_[rank] = has_[rank] ? promote(type_[rank], t) : t;
  has_[rank] = true;
}

ResultType& ResultType::add(DType t, size_t dim) {
  join(dim > 0 ? 0 : 1, t);
  return *this;
}
ResultType& ResultType::add(const TensorType& t) { return add(t.dtype, t.dim()); }
ResultType& ResultType::add_number(const Arg& scalar) {
  join(2, number_type(scalar));
  return *this;
}

namespace {
// `combine_categories` of ATen: the lower rank counts only when its category is higher.
DType combine(bool has_higher, DType higher, bool has_lower, DType lower) {
  if (!has_higher) return lower;
  if (!has_lower) return higher;
  if (is_complex(higher)) return higher;
  if (is_float(higher)) return is_complex(lower) ? complex_of(higher) : higher;
  if (higher == DType::Bool || is_float(lower) || is_complex(lower)) return promote(higher, lower);
  return higher;
}
}  // namespace

DType ResultType::get() const {
  VESTA_CHECK(!empty(), "a promotion without operands");
  const DType low = combine(has_[1], type_[1], has_[2], type_[2]);
  return combine(has_[0], type_[0], has_[1] || has_[2], low);
}

void require_category(const OpRow& row, const NodeArgs& args, DType t) {
  VESTA_USER_CHECK(row.accepts & category(t), "{} is not implemented for {}", args.schema().name, name(t));
}

FiniteRange finite_range(DType t) {
  const auto of = [](auto limits) {
    return FiniteRange{static_cast<double>(limits.lowest()), static_cast<double>(limits.max())};
  };
  switch (t) {
    case DType::U8: return of(std::numeric_limits<uint8_t>());
    case DType::I8: return of(std::numeric_limits<int8_t>());
    case DType::I16: return of(std::numeric_limits<int16_t>());
    case DType::I32: return of(std::numeric_limits<int32_t>());
    case DType::I64: return {-0x1p63, 0x1.fffffffffffffp62};
    case DType::F16: return {-65504.0, 65504.0};
    case DType::BF16: return {-0x1.fep127, 0x1.fep127};
    case DType::F32: return of(std::numeric_limits<float>());
    default: return of(std::numeric_limits<double>());
  }
}

}  // namespace vesta::graph
