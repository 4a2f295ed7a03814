#include "graph/rules/integer_range.h"

namespace vesta::graph {

namespace {

const Expr* integer(const Arg& a) { return std::get_if<Expr>(&a); }

std::optional<IntegerRange> counted(const NodeArgs& args) {
  const auto bound = [&](std::string_view name, Expr otherwise) -> std::optional<Expr> {
    if (args.schema().index_of(name) < 0) return otherwise;
    const Expr* const e = integer(args.get(name));
    return e ? std::optional(*e) : std::nullopt;
  };
  const auto start = bound("start", 0), end = bound("end", 0), step = bound("step", 1);
  if (!start || !end || !step || !provably_at_least(*step, 1)) return std::nullopt;
  return IntegerRange{*start, *end - 1};
}

// `sign`: 1 if the number is added, -1 if it is subtracted.
std::optional<IntegerRange> moved(const Node& node, int64_t sign) {
  const NodeArgs args = node.named();
  const Expr *const other = integer(args.get("other")), *const alpha = integer(args.get("alpha"));
  const auto range = other && alpha ? integer_range(*node.input(0)) : std::nullopt;
  if (!range) return std::nullopt;
  const Expr by = Expr(sign) * *alpha * *other;
  return IntegerRange{range->least + by, range->most + by};
}

}  // namespace

std::optional<IntegerRange> integer_range(const Value& v) {
  const Node* const n = v.producer;
  if (!n || v.type.dtype != DType::I64) return std::nullopt;
  const std::string_view op = n->op->name;
  if (op == "aten::arange" || op == "aten::arange.start" || op == "aten::arange.start_step") return counted(n->named());
  if (op == "aten::add.Scalar") return moved(*n, 1);
  if (op == "aten::sub.Scalar") return moved(*n, -1);
  if (n->op->family() == Family::View || op == "aten::clone") return integer_range(*n->input(0));
  return std::nullopt;
}

bool reads_inside(const Node& node) {
  const std::string_view op = node.op->name;
  const auto inside = [](const Value& places, Expr size) {
    const auto range = integer_range(places);
    return range && provably_at_least(range->least, -size) && provably_less(range->most, size);
  };
  const auto non_negative = [](const Value& places) {
    const auto range = integer_range(places);
    return range && provably_at_least(range->least, 0);
  };
  if (op == "aten::index.Tensor") {
    const auto& places = std::get<ValueList>(node.args()[1]);
    const std::vector<Expr>& sizes = node.input(0)->type.sizes;
    for (size_t d = 0; d < places.size(); ++d)
      if (places[d] && !inside(*places[d], sizes[d])) return false;
    return true;
  }
  if (op == "aten::embedding") {
    const Value& places = *node.input(1);
    return non_negative(places) && inside(places, node.input(0)->type.sizes[0]);
  }
  if (op == "aten::gather" || op == "aten::index_select") {
    const Expr* const dim = integer(node.args()[1]);
    const std::vector<Expr>& sizes = node.input(0)->type.sizes;
    if (!dim || !dim->is_constant() || sizes.empty()) return false;
    const auto count = static_cast<int64_t>(sizes.size());
    const int64_t d = dim->constant() < 0 ? dim->constant() + count : dim->constant();
    const Value& places = *node.input(2);
    return d >= 0 && d < count && non_negative(places) && inside(places, sizes[static_cast<size_t>(d)]);
  }
  return false;
}

}  // namespace vesta::graph
