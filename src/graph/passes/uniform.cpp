#include "graph/passes/uniform.h"

#include <bit>
#include <cmath>

#include "graph/passes/rewriter.h"
#include "graph/rules/factory_types.h"

namespace vesta::graph {
namespace {

constexpr double kExactIntegers = 9007199254740992.0;  // 2^53

double to_bf16(double v) {
  const float f = static_cast<float>(v);
  if (std::isnan(f)) return f;
  uint32_t bits = std::bit_cast<uint32_t>(f);
  bits += 0x7fff + ((bits >> 16) & 1);
  return std::bit_cast<float>(bits & 0xffff0000u);
}

}  // namespace

std::optional<double> rounded_to(DType t, double v) {
  switch (t) {
    case DType::F64: return v;
    case DType::F32: return static_cast<float>(v);
    case DType::BF16: return to_bf16(v);
    case DType::Bool: return v != 0 ? 1.0 : 0.0;
    case DType::F16:
      // Small integers are exact. Other numbers are rounded by the machine that runs the program.
      if (v == std::trunc(v) && std::fabs(v) <= 2048) return v;
      return std::nullopt;
    default: break;
  }
  if (!is_integral(t) || !(v == std::trunc(v)) || std::fabs(v) > kExactIntegers) return std::nullopt;
  const int64_t bits = element_size(t) * 8;
  const double low = is_signed(t) ? -std::ldexp(1.0, static_cast<int>(bits) - 1) : 0.0;
  const double high = std::ldexp(1.0, static_cast<int>(is_signed(t) ? bits - 1 : bits)) - 1;
  return v >= low && v <= high ? std::optional(v) : std::nullopt;
}

std::optional<double> number_of(const Arg& a) {
  std::optional<Arg> filled;
  const Arg* number = &a;
  DType type = DType::F64;
  if (const Value* v = value_of(a)) {
    if (!v->producer || v->producer->prepacked) return std::nullopt;
    filled = fill_number(*v->producer);
    if (!filled) return std::nullopt;
    number = &*filled;
    type = v->type.dtype;
  }
  if (const bool* b = std::get_if<bool>(number)) return rounded_to(type, *b ? 1 : 0);
  if (const double* d = std::get_if<double>(number)) return rounded_to(type, *d);
  const Expr* e = std::get_if<Expr>(number);
  if (!e || !e->is_constant() || std::fabs(static_cast<double>(e->constant())) > kExactIntegers) return std::nullopt;
  return rounded_to(type, static_cast<double>(e->constant()));
}

}  // namespace vesta::graph
