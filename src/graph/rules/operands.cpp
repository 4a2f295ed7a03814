#include "graph/rules/operands.h"

#include <array>
#include <cmath>

#include "base/check.h"
#include "graph/ops/rows.h"
#include "graph/rules/iterator_strides.h"
#include "graph/rules/promotion.h"

namespace vesta::graph {
namespace {

bool promotes(const SchemaArg& a) {
  static constexpr std::array names = {"self", "other", "exponent", "min", "max"};
  if (a.type != ArgType::Scalar) return false;
  for (const char* n : names)
    if (a.name == n) return true;
  return false;
}

bool promotes_scalars(Promote p) {
  return p == Promote::Default || p == Promote::Float || p == Promote::Compare || p == Promote::Logical ||
         p == Promote::Select;
}

bool is_tensor(const Arg& a) {
  const auto* v = std::get_if<Value*>(&a);
  return v && *v;
}

// Whether the type holds a bound of clamp or hardtanh. A bound that it does not hold wraps, saturates or raises,
// depending on the version of ATen.
bool holds_bound(DType t, const Arg& bound) {
  const FiniteRange range = finite_range(t);
  if (const auto* v = std::get_if<double>(&bound))
    return (is_float(t) && !std::isfinite(*v)) || (*v >= range.low && *v <= range.high);
  const auto* e = std::get_if<Expr>(&bound);
  if (!e || t == DType::I64) return true;
  if (!e->is_constant()) return is_float(t);
  const auto v = static_cast<double>(e->constant());
  return v >= range.low && v <= range.high;
}

bool is_bound(const SchemaArg& a) {
  return a.type == ArgType::Scalar &&
         (a.name == "min" || a.name == "max" || a.name == "min_val" || a.name == "max_val");
}

}  // namespace

PointwiseTypes pointwise_types(const OpRow& row, const NodeArgs& args) {
  PointwiseTypes types;
  ResultType joined;
  const TensorType* first = nullptr;
  size_t tensors = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    const bool tensor = is_tensor(args[i]);
    // A number in a tensor's position is PyTorch's wrapped number.
    const bool number = is_number(args[i]) && (args.schema().args[i].type == ArgType::Tensor ||
                                               (promotes_scalars(row.promote) && promotes(args.schema().args[i])));
    if (!tensor && !number) continue;
    types.operands.push_back({.arg = i});
    if (!tensor) {
      joined.add_number(args[i]);
      continue;
    }
    const TensorType& t = args.tensor(i);
    if (!first) first = &t;
    const bool apart = row.promote == Promote::Select ? tensors == 0 : row.promote == Promote::Keep && tensors > 0;
    if (!apart) joined.add(t);
    ++tensors;
  }
  VESTA_CHECK(!joined.empty(), "{} has no operands", args.schema().name);
  switch (row.promote) {
    case Promote::First:
    case Promote::Keep: types.promoted = first->dtype; break;
    case Promote::Float:
      types.promoted = joined.get();
      if (is_integral(types.promoted) || types.promoted == DType::Bool) types.promoted = default_dtype();
      break;
    default:
      types.promoted = joined.get();
      // div without a rounding mode is true division.
      if (args.schema().index_of("rounding_mode") >= 0 && !args.has("rounding_mode") &&
          category(types.promoted) < kFloatType)
        types.promoted = default_dtype();
  }
  types.compute = opmath(types.promoted);
  types.result = row.promote == Promote::Compare || row.promote == Promote::Logical ? DType::Bool : types.promoted;
  size_t seen = 0;
  for (PointwiseOperand& o : types.operands) {
    const bool tensor = is_tensor(args[o.arg]);
    const DType own = tensor ? args.tensor(o.arg).dtype : number_type(args[o.arg]);
    const bool low = !tensor || is_zero_dim(args.tensor(o.arg));
    if (row.promote == Promote::Keep) {
      o.to = opmath(own);
      o.through = o.to;
    } else if (row.promote == Promote::Logical) {
      o.through = o.to = DType::Bool;
    } else if (row.promote == Promote::Select && seen == 0) {
      o.through = o.to = DType::Bool;
    } else {
      o.to = types.compute;
      o.through = low && (row.flags & kWideScalars) ? types.compute : types.promoted;
    }
    seen += tensor;
  }
  return types;
}

bool has_body_for(const OpRow& row, const NodeArgs& args) {
  if (!row.body) return false;
  const auto plain = [](DType t) {
    return !is_complex(t) && t != DType::Other && t != DType::U16 && t != DType::U32 && t != DType::U64;
  };
  for (const Arg& a : args.all()) {
    if (is_tensor(a) && !plain(std::get<Value*>(a)->type.dtype)) return false;
    if (std::holds_alternative<std::complex<double>>(a)) return false;
  }
  const PointwiseTypes types = pointwise_types(row, args);
  if ((row.flags & kIntegerByConstant) && category(types.compute) < kFloatType) {
    const auto* divisor = std::get_if<Expr>(&args[types.operands.back().arg]);
    if (!divisor || !divisor->is_constant() || divisor->constant() <= 0) return false;
  }
  for (size_t i = 0; i < args.size(); ++i)
    if (is_bound(args.schema().args[i]) && !holds_bound(types.promoted, args[i])) return false;
  return plain(types.compute) && plain(types.result);
}

bool holds_parameters(const Op& op, std::span<const Arg> args, DType result) {
  for (size_t i = 0; i < args.size() && i < op.schema.args.size(); ++i) {
    const SchemaArg& a = op.schema.args[i];
    if (a.type != ArgType::Scalar) continue;
    const bool operand =
        op.row && op.family() == Family::Pointwise && promotes_scalars(op.row->promote) && promotes(a) && !is_bound(a);
    if (operand) continue;
    if (std::holds_alternative<std::complex<double>>(args[i])) {
      if (!is_complex(result)) return false;
      continue;
    }
    if (a.name == "alpha" && std::holds_alternative<bool>(args[i]) && result != DType::Bool) return false;
    if (a.name == "alpha" && std::holds_alternative<double>(args[i]) && !is_float(result) && !is_complex(result))
      return false;
    const Expr* e = std::get_if<Expr>(&args[i]);
    if ((e && !e->is_constant()) || result == DType::Bool || is_complex(result)) continue;
    if (!holds_bound(result, args[i])) return false;
  }
  return true;
}

void empty_like_first(const NodeArgs& args, Guards& g, Results& results) { results = {preserved(g, args.tensor(0))}; }

void default_shape(const OpRow& row, const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  if (row.family != Family::Pointwise) VESTA_UNSUPPORTED("{} has no shape rule", args.schema().name);
  const PointwiseTypes types = pointwise_types(row, args);
  if (row.promote != Promote::Keep && row.promote != Promote::Logical) require_category(row, args, types.promoted);
  static const TensorType number;
  std::vector<const TensorType*> operands;
  std::deque<TensorType> casts;
  // TensorIterator casts operands of another type before it looks at their strides.
  const bool casts_operands =
      row.promote != Promote::Keep && row.promote != Promote::Logical && row.promote != Promote::First;
  const TensorType* device = nullptr;
  Sizes sizes;
  for (const PointwiseOperand& o : types.operands) {
    if (!is_tensor(args[o.arg])) {
      // The kernel reads a bound of clamp; every other number becomes a 0-d operand.
      const std::string& n = args.schema().args[o.arg].name;
      if (n != "min" && n != "max" && n != "exponent") operands.push_back(&number);
      continue;
    }
    const TensorType& t = args.tensor(o.arg);
    if (!device || (device->dim() == 0 && device->device.type == DeviceType::CPU)) device = &t;
    const bool condition = row.promote == Promote::Select && &o == types.operands.data();
    VESTA_USER_CHECK(!condition || t.dtype == DType::Bool || t.dtype == DType::U8, "{} needs a boolean condition",
                     args.schema().name);
    if (casts_operands && !condition && t.dtype != types.promoted) {
      operands.push_back(&casts.emplace_back(preserved(g, t)));
    } else {
      operands.push_back(&t);
    }
    sizes = broadcast(g, sizes, t.sizes);
  }
  TensorType out{.dtype = types.result, .sizes = sizes, .strides = {}, .device = device->device};
  out.strides = iterator_strides(g, out.sizes, operands);
  results.assign(1, out);
}

}  // namespace vesta::graph
