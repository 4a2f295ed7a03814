// Tensors made from sizes and numbers. Constant fills become aten::full, uninitialized tensors become
// aten::empty_strided, whose elements a kernel reads as zeros.
#include <cmath>

#include "graph/ops/rows.h"
#include "graph/rules/factory_types.h"
#include "graph/rules/promotion.h"

namespace vesta::graph {

namespace {

void sized(const NodeArgs& args, Guards&, Results& results) {
  results.assign(1, factory_type(args, args.integers("size"), default_dtype(), {}));
}
void full(const NodeArgs& args, Guards&, Results& results) {
  results.assign(1, factory_type(args, args.integers("size"), number_type(args.get("fill_value")), {}));
}
void scalar_tensor(const NodeArgs& args, Guards&, Results& results) {
  results.assign(1, factory_type(args, {}, default_dtype(), {}));
}
void like(const NodeArgs& args, Guards& g, Results& results) { results.assign(1, like_type(args, g)); }
void made_new(const NodeArgs& args, Guards&, Results& results) {
  results.assign(1, factory_type(args, args.integers("size"), args.tensor(0).dtype, args.tensor(0).device));
}
void strided(const NodeArgs& args, Guards&, Results& results) {
  results.assign(1, factory_type(args, args.integers("size"), default_dtype(), {}));
  results[0].strides = args.integers("stride");
}
void new_strided(const NodeArgs& args, Guards& g, Results& results) {
  made_new(args, g, results);
  results[0].strides = args.integers("stride");
}
void eye(const NodeArgs& args, Guards&, Results& results) {
  const Expr n = args.integer("n");
  const Expr m = args.schema().index_of("m") >= 0 ? args.integer("m") : n;
  results.assign(1, factory_type(args, {n, m}, default_dtype(), {}));
}
void linspace(const NodeArgs& args, Guards&, Results& results) {
  const bool complex =
      std::holds_alternative<std::complex<double>>(args[0]) || std::holds_alternative<std::complex<double>>(args[1]);
  results.assign(
      1, factory_type(args, {args.integer("steps")}, complex ? complex_of(default_dtype()) : default_dtype(), {}));
}

// The count of elements, computed in integers or in double, as ATen does.
void arange(const NodeArgs& args, Guards& g, Results& results) {
  const bool has_start = args.schema().index_of("start") >= 0, has_step = args.schema().index_of("step") >= 0;
  const Arg start = has_start ? args.get("start") : Arg(Expr(0));
  const Arg step = has_step ? args.get("step") : Arg(Expr(1));
  const Arg& end = args.get("end");
  const auto is_double = [](const Arg& a) { return std::holds_alternative<double>(a); };
  const bool floating = is_double(start) || is_double(end) || is_double(step);
  const DType t = args.dtype("dtype", floating ? default_dtype() : DType::I64);
  VESTA_USER_CHECK(t != DType::Bool && !is_complex(t), "arange does not support {}", name(t));
  Expr count;
  if (!floating || is_integral(t)) {
    const auto integer = [](const Arg& a) {
      if (const auto* e = std::get_if<Expr>(&a)) return *e;
      if (const auto* v = std::get_if<bool>(&a)) return Expr(*v ? 1 : 0);
      return Expr(static_cast<int64_t>(std::get<double>(a)));
    };
    const Expr low = integer(start), high = integer(end), by = integer(step);
    VESTA_USER_CHECK(by.is_constant() && !by.is_constant(0), "arange needs a constant step that is not 0");
    const Expr distance = by.constant() > 0 ? high - low : low - high;
    VESTA_USER_CHECK(!g.less(distance, 0), "arange: the bounds do not fit the step");
    count = ceildiv(distance, std::abs(by.constant()));
  } else {
    const auto real = [](const Arg& a) {
      if (const auto* e = std::get_if<Expr>(&a)) {
        if (!e->is_constant()) VESTA_UNSUPPORTED("arange does not support floats with a symbolic bound");
        return static_cast<double>(e->constant());
      }
      return std::holds_alternative<bool>(a) ? double(std::get<bool>(a)) : std::get<double>(a);
    };
    const double low = real(start), high = real(end), by = real(step);
    VESTA_USER_CHECK(std::isfinite(low) && std::isfinite(high) && by != 0 && (by > 0 ? high >= low : high <= low),
                     "arange: the bounds do not fit the step");
    count = static_cast<int64_t>(std::ceil((high - low) / by));
  }
  results.assign(1, factory_type(args, {count}, t, {}));
}
std::vector<Value*> arange_full_form(Builder& b, const Node& node) {
  const NodeArgs args = node.named();
  const bool has_start = args.schema().index_of("start") >= 0;
  return {b("aten::arange.start_step", {has_start ? args.get("start") : Arg(Expr(0)), args.get("end"), Expr(1)},
            {{"dtype", node.results[0]->type.dtype}, {"device", node.results[0]->type.device}})};
}

std::vector<Value*> uninitialised(Builder& b, const Node& node) {
  const TensorType& t = node.results[0]->type;
  return {b("aten::empty_strided", {IntList(t.sizes), IntList(t.strides)}, {{"dtype", t.dtype}, {"device", t.device}})};
}

std::vector<Value*> filled(Builder& b, const Node& node) {
  const TensorType& t = node.results[0]->type;
  const std::optional<Arg> number = fill_number(node);
  // The fill converts the number to the element type, as full does.
  Value* v = b("aten::full", {IntList(t.sizes), number.value_or(Expr(0))}, {{"dtype", t.dtype}, {"device", t.device}});
  v->type.strides = t.strides;
  return {v};
}

constexpr OpRow factory(const char* names, ShapeRule shape, Decompose decompose, Role role = Role::None) {
  return {.names = names,
          .family = Family::Composite,
          .shape = shape,
          .decompose = decompose,
          .flags = kFloat8,
          .role = role};
}
constexpr OpRow fill(const char* names, ShapeRule shape, Role role) { return factory(names, shape, filled, role); }

constexpr OpRow kFactoryRows[] = {
    {.names = "aten::full", .family = Family::Factory, .shape = full, .flags = kFloat8, .role = Role::Fill},
    fill("aten::zeros", sized, Role::Zeros),
    fill("aten::ones", sized, Role::Ones),
    factory("aten::empty.memory_format", sized, uninitialised),
    {.names = "aten::empty_strided", .family = Family::Factory, .shape = strided, .flags = kFloat8 | kUninitialized},
    fill("aten::scalar_tensor", scalar_tensor, Role::Fill),
    fill("aten::zeros_like", like, Role::Zeros),
    fill("aten::ones_like", like, Role::Ones),
    fill("aten::zero", empty_like_first, Role::None),
    fill("aten::full_like", like, Role::Fill),
    factory("aten::empty_like", like, uninitialised),
    fill("aten::new_zeros", made_new, Role::Zeros),
    fill("aten::new_ones", made_new, Role::Ones),
    fill("aten::new_full", made_new, Role::Fill),
    factory("aten::new_empty", made_new, uninitialised),
    factory("aten::new_empty_strided", new_strided, uninitialised),
    {.names = "aten::arange.start_step", .family = Family::Factory, .shape = arange},
    factory("aten::arange aten::arange.start", arange, arange_full_form),
    {.names = "aten::eye", .family = Family::Factory, .shape = eye},
    {.names = "aten::eye.m", .family = Family::Factory, .shape = eye},
    call("aten::linspace aten::logspace", linspace, kMayRaise),
};

}  // namespace

std::span<const OpRow> factory_rows() { return kFactoryRows; }

}  // namespace vesta::graph
