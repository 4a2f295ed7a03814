// Which dimensions a reduction node reduces, read from its schema's `dim`, `keepdim` and `dtype` arguments.
#include "loops/ops/rows.h"

namespace vesta::loops {

bool is_one_hot_gather(const Node& node) {
  const LoweringRow* row = find_lowering(node);
  if (!row || !row->one_hot || node.results.size() != 1) return false;
  graph::NodeArgs args = node.named();
  const graph::TensorType& x = args.tensor("self");
  const graph::TensorType& index = args.tensor("index");
  if (!is_float(x.dtype) || !is_integral(index.dtype) || x.dim() == 0 || x.dim() != index.dim()) return false;
  const std::optional<size_t> dim = constant_dim(args.integer("dim"), x.dim());
  if (!dim) return false;
  for (size_t d = 0; d < x.dim(); ++d) {
    if (d == *dim ? !index.sizes[d].is_constant(1) : !provably_equal(index.sizes[d], x.sizes[d])) return false;
  }
  return true;
}

std::optional<ReductionShape> reduction_shape(const Node& node, std::string* why) {
  auto refuse = [&](const char* reason) -> std::optional<ReductionShape> {
    if (why) *why = reason;
    return std::nullopt;
  };
  if (const auto product = product_operands(node)) {
    ReductionShape s;
    s.reduced.assign(node.results[0]->type.dim(), false);
    s.reduced.resize(s.reduced.size() + product->inner, true);
    return s;
  }
  graph::NodeArgs args = node.named();
  const graph::Schema& schema = node.op->schema;
  if (args.size() == 0 || !std::holds_alternative<graph::Value*>(args[0])) return refuse("no single operand");
  const graph::TensorType& operand = node.input(0)->type;
  const graph::Value* first = nullptr;
  for (const graph::Value* v : node.results) {
    if (v && !first) first = v;
  }
  if (!first) return refuse("no result");
  ReductionShape s;
  s.op = node.op->row->reduce;
  s.reduced.assign(operand.dim(), false);
  const bool one_hot = is_one_hot_gather(node);
  if (one_hot) s.op = ReduceOp::Sum;
  const bool arg = s.op == ReduceOp::ArgMax || s.op == ReduceOp::ArgMin;
  auto mark = [&](Expr e) {
    if (operand.dim() == 0) return e.is_constant(0) || e.is_constant(-1);
    const std::optional<size_t> d = constant_dim(e, operand.dim());
    if (d) s.reduced[*d] = true;
    return d.has_value();
  };
  auto mark_all = [&] { s.reduced.assign(operand.dim(), true); };
  if (int i = schema.index_of("dim"); i >= 0) {
    const graph::Arg& dim = args[static_cast<size_t>(i)];
    if (graph::is_none(dim)) {
      mark_all();
    } else if (auto* e = std::get_if<Expr>(&dim)) {
      if (!mark(*e)) return refuse("a dimension that is not constant");
    } else if (auto* list = std::get_if<graph::IntList>(&dim)) {
      if (list->empty()) mark_all();
      for (Expr e : *list) {
        if (!mark(e)) return refuse("a dimension that is not constant");
      }
    } else {
      return refuse("an unknown kind of dimension argument");
    }
  } else {
    mark_all();
  }
  if (one_hot) s.keep = true;
  if (int i = schema.index_of("keepdim"); i >= 0) {
    if (auto* keep = std::get_if<bool>(&args[static_cast<size_t>(i)])) s.keep = *keep;
  }
  switch (s.op) {
    case ReduceOp::Sum:
    case ReduceOp::Prod: s.compute = opmath(first->type.dtype); break;
    case ReduceOp::Any:
    case ReduceOp::All: s.compute = DType::Bool; break;
    default: s.compute = opmath(operand.dtype); break;
  }
  // An empty maximum has no value, so eager raises.
  const bool has_identity =
      s.op == ReduceOp::Sum || s.op == ReduceOp::Prod || s.op == ReduceOp::Any || s.op == ReduceOp::All;
  if (!has_identity) {
    for (size_t d = 0; d < s.reduced.size(); ++d) {
      if (s.reduced[d] && operand.sizes[d].is_constant(0)) return refuse("an empty reduction without identity");
    }
  }
  size_t kept = 0;
  for (bool r : s.reduced) kept += !r || s.keep;
  if (kept != first->type.dim()) return refuse("a result of another shape");
  if (arg && node.results.size() > 2) return refuse("several results");
  if (!arg && node.results.size() > 1) return refuse("several results");
  return s;
}

std::vector<Expr> reduced_sizes(const Node& node) {
  const auto product = product_operands(node);
  if (!product) return node.input(0)->type.sizes;
  std::vector<Expr> sizes = node.results[0]->type.sizes;
  const std::vector<Expr>& rows = product->rows->type.sizes;
  sizes.insert(sizes.end(), rows.end() - static_cast<std::ptrdiff_t>(product->inner), rows.end());
  return sizes;
}

}  // namespace vesta::loops
