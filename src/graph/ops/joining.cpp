// Tensors put together: cat, stack, block_diag.
#include "graph/ops/rows.h"
#include "graph/rules/decompose.h"
#include "graph/rules/promotion.h"
#include "graph/rules/view_strides.h"

namespace vesta::graph {
namespace {

const ValueList& tensors_of(const NodeArgs& args) { return std::get<ValueList>(args[0]); }

// As in ATen, an empty 1-d tensor joins anything.
bool ignored(const TensorType& t) { return t.dim() == 1 && t.sizes[0].is_constant(0); }

TensorType joined(const ValueList& tensors, Expr dim, Guards& g) {
  VESTA_USER_CHECK(!tensors.empty(), "cat needs at least one tensor");
  ResultType type;
  const TensorType* shape = nullptr;
  for (const Value* v : tensors) {
    type.add(v->type);
    VESTA_USER_CHECK(v->type.dim() > 0, "cat does not take 0-d tensors");
    if (!shape && !ignored(v->type)) shape = &v->type;
  }
  TensorType out = shape ? *shape : tensors[0]->type;
  out.dtype = type.get();
  const int64_t d = wrap_dim(g, dim, out.dim());
  Expr total = 0;
  MemoryFormat format = suggest_memory_format(g, tensors[0]->type);
  for (const Value* v : std::span(tensors).subspan(1))
    if (suggest_memory_format(g, v->type) != format) format = MemoryFormat::Contiguous;
  for (const Value* v : tensors) {
    if (ignored(v->type)) continue;
    VESTA_USER_CHECK(v->type.dim() == out.dim(), "cat needs tensors with the same number of dimensions");
    for (size_t i = 0; i < out.dim(); ++i)
      if (static_cast<int64_t>(i) != d)
        VESTA_USER_CHECK(g.equal(v->type.sizes[i], out.sizes[i]), "cat: sizes differ outside dimension {}", d);
    total = total + v->type.sizes[d];
  }
  if (shape) out.sizes[d] = total;
  const bool fits = (format != MemoryFormat::ChannelsLast || out.dim() == 4) &&
                    (format != MemoryFormat::ChannelsLast3d || out.dim() == 5);
  out.strides = format_strides(out.sizes, fits ? format : MemoryFormat::Contiguous);
  return out;
}
void cat(const NodeArgs& args, Guards& g, Results& results) {
  results = {joined(tensors_of(args), args.integer("dim"), g)};
}

void stack(const NodeArgs& args, Guards& g, Results& results) {
  const ValueList& tensors = tensors_of(args);
  VESTA_USER_CHECK(!tensors.empty(), "stack needs at least one tensor");
  ResultType type;
  const TensorType& first = tensors[0]->type;
  for (const Value* v : tensors) {
    type.add(v->type);
    VESTA_USER_CHECK(v->type.dim() == first.dim(), "stack needs tensors with the same number of dimensions");
    VESTA_USER_CHECK(same_sizes(g, v->type.sizes, first.sizes), "stack needs tensors of equal sizes");
  }
  const int64_t d = wrap_dim(g, args.integer("dim"), first.dim() + 1);
  Sizes sizes = first.sizes;
  const Expr count = static_cast<int64_t>(tensors.size());
  sizes.insert(sizes.begin() + d, count);
  TensorType out = contiguous_like(first, sizes, type.get());
  // Before the last dimension ATen concatenates along the dimension and splits it: the tensors' memory format stays.
  if (d < static_cast<int64_t>(first.dim()) && !is_empty(g, sizes)) {
    auto strides = view_strides(g, joined(tensors, d, g), sizes);
    VESTA_CHECK(strides, "a dimension is not split");
    out.strides = std::move(*strides);
  }
  results = {out};
}
std::vector<Value*> stack_form(Builder& b, const Node& node) {
  const NodeArgs args = node.named();
  const Expr d = wrap_dim(args.integer("dim"), tensors_of(args)[0]->type.dim() + 1);
  ValueList parts;
  for (Value* v : tensors_of(args)) parts.push_back(b("aten::unsqueeze", {v, d}));
  return finish(b, node, {b("aten::cat", {parts, d})});
}

// Sizes of a block as a matrix: a number is one element, a vector is a row.
std::pair<Expr, Expr> block_sizes(const TensorType& t) {
  if (t.dim() == 0) return {1, 1};
  return t.dim() == 1 ? std::pair<Expr, Expr>(1, t.sizes[0]) : std::pair(t.sizes[0], t.sizes[1]);
}

void block_diag(const NodeArgs& args, Guards&, Results& results) {
  const ValueList& tensors = tensors_of(args);
  if (tensors.empty()) VESTA_UNSUPPORTED("block_diag needs at least one tensor");
  ResultType type;
  Sizes sizes = {0, 0};
  for (const Value* v : tensors) {
    VESTA_USER_CHECK(v->type.dim() <= 2, "block_diag takes tensors with at most two dimensions");
    VESTA_USER_CHECK(v->type.device == tensors[0]->type.device, "block_diag needs tensors on one device");
    type.add(v->type);
    const auto [rows, columns] = block_sizes(v->type);
    sizes[0] = sizes[0] + rows;
    sizes[1] = sizes[1] + columns;
  }
  results = {contiguous_like(tensors[0]->type, sizes, type.get())};
}
// Rows of blocks, each block between zeros.
std::vector<Value*> block_diag_form(Builder& b, const Node& node) {
  const TensorType& out = node.results[0]->type;
  if (numel(out).is_constant(0)) return {};
  ValueList parts;
  Expr before = 0;
  for (Value* v : tensors_of(node.named())) {
    const auto [rows, columns] = block_sizes(v->type);
    const Expr after = out.sizes[1] - before - columns;
    ValueList row;
    auto add_zeros = [&](Expr width) {
      if (!width.is_constant(0))
        row.push_back(b("aten::full", {IntList{rows, width}, Expr(0)}, {{"dtype", out.dtype}, {"device", out.device}}));
    };
    add_zeros(before);
    row.push_back(reshaped(b, v, {rows, columns}));
    add_zeros(after);
    if (!rows.is_constant(0)) parts.push_back(b("aten::cat", {row, Expr(1)}));
    before = before + columns;
  }
  return finish(b, node, {b("aten::cat", {parts, Expr(0)})});
}

constexpr OpRow kJoiningRows[] = {
    indexed("aten::cat", cat, kFloat8, LayoutRule::Follows),
    composite("aten::stack", stack, stack_form),
    composite("aten::block_diag", block_diag, block_diag_form),
};

}  // namespace

std::span<const OpRow> joining_rows() { return kJoiningRows; }

}  // namespace vesta::graph
