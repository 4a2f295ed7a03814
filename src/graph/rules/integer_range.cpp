#include "graph/rules/integer_range.h"

#include "graph/rules/broadcast.h"

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
  const auto inside = [](const Value& places, Expr least, Expr size) {
    const auto range = integer_range(places);
    return range && provably_at_least(range->least, least) && provably_less(range->most, size);
  };
  if (op == "aten::index.Tensor") {
    const auto& places = std::get<ValueList>(node.args()[1]);
    const std::vector<Expr>& sizes = node.input(0)->type.sizes;
    for (size_t d = 0; d < places.size(); ++d)
      if (places[d] && !inside(*places[d], -sizes[d], sizes[d])) return false;
    return true;
  }
  if (op == "aten::embedding") return inside(*node.input(1), 0, node.input(0)->type.sizes[0]);
  if (op == "aten::gather" || op == "aten::index_select") {
    const std::vector<Expr>& sizes = node.input(0)->type.sizes;
    if (sizes.empty()) return false;
    const int64_t d = wrap_dim(node.named().integer("dim"), sizes.size());
    return inside(*node.input(2), 0, sizes[static_cast<size_t>(d)]);
  }
  return false;
}

}  // namespace vesta::graph
