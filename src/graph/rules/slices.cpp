#include "graph/rules/slices.h"

#include <limits>

#include "base/check.h"

namespace vesta::graph {
namespace {

// A slice bound as Python reads it: a negative bound counts from the end, and all are clamped to [least, size].
Expr bound(Guards& g, Expr v, Expr least, Expr size) {
  if (g.less(v, 0)) {
    v = v + size;
    if (g.less(v, 0)) v = 0;
  }
  if (g.less(v, least)) return least;
  if (v == size || g.less(size, v)) return size;
  return v;
}

}  // namespace

SliceRange slice_range(Guards& g, const NodeArgs& args, Expr size) {
  const Expr step = args.integer("step");
  VESTA_USER_CHECK(g.less(0, step), "slice: the step must be positive");
  const Expr start = args.has("start") ? bound(g, args.integer("start"), 0, size) : Expr(0);
  // A bound that reaches the largest integer means "to the end".
  const bool open = !args.has("end") || args.integer("end").is_constant(std::numeric_limits<int64_t>::max());
  const Expr end = open ? size : bound(g, args.integer("end"), start, size);
  const Expr length = end == start ? Expr(0) : ceildiv(end - start, step);
  return {start, length, step};
}

void split_shape(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  const TensorType& x = args.tensor(0);
  const int64_t d = wrap_dim(g, args.integer("dim"), x.dim());
  VESTA_USER_CHECK(x.dim() > 0, "split does not take 0-d tensors");
  const int64_t step = g.specialize(args.integer("split_size"));
  const int64_t size = g.specialize(x.sizes[d]);
  VESTA_USER_CHECK(step > 0 || (step == 0 && size == 0), "split: the size must be positive");
  results.clear();
  for (int64_t at = 0; at == 0 || at < size; at += step) {
    TensorType part = x;
    part.sizes[d] = std::min(step, size - at);
    results.push_back(part);
    if (step == 0) break;
  }
}

void split_with_sizes_shape(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  const TensorType& x = args.tensor(0);
  const int64_t d = wrap_dim(g, args.integer("dim"), x.dim());
  VESTA_USER_CHECK(x.dim() > 0, "split does not take 0-d tensors");
  results.clear();
  Expr total = 0;
  for (Expr size : args.integers("split_sizes")) {
    VESTA_USER_CHECK(!g.less(size, 0), "split: the size must not be negative");
    TensorType part = x;
    part.sizes[d] = size;
    total = total + size;
    results.push_back(part);
  }
  VESTA_USER_CHECK(total == x.sizes[d] || g.equal(total, x.sizes[d]),
                   "split: the sizes do not add up to the dimension's size");
}

void unbind_shape(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  const TensorType& x = args.tensor(0);
  VESTA_USER_CHECK(x.dim() > 0, "unbind does not take 0-d tensors");
  const int64_t d = wrap_dim(g, args.integer("dim"), x.dim());
  TensorType part = x;
  part.sizes.erase(part.sizes.begin() + d);
  part.strides.erase(part.strides.begin() + d);
  results.assign(static_cast<size_t>(g.specialize(x.sizes[d])), part);
}

namespace {
std::vector<Value*> parts(Builder& b, const Node& node) {
  Value* x = node.input(0);
  const int64_t d = wrap_dim(node.named().integer("dim"), x->type.dim());
  std::vector<Value*> out;
  Expr at = 0;
  for (const Value* part : node.results) {
    if (!part) {
      return {};
    }
    const Expr end = at + part->type.sizes[d];
    out.push_back(b("aten::slice.Tensor", {x, Expr(d), at, end, Expr(1)}));
    at = end;
  }
  return out;
}
}  // namespace

std::vector<Value*> split(Builder& b, const Node& node) { return parts(b, node); }
std::vector<Value*> split_with_sizes(Builder& b, const Node& node) { return parts(b, node); }
std::vector<Value*> unbind(Builder& b, const Node& node) {
  Value* x = node.input(0);
  const Expr d = wrap_dim(node.named().integer("dim"), x->type.dim());
  std::vector<Value*> out;
  for (size_t i = 0; i < node.results.size(); ++i)
    out.push_back(b("aten::select.int", {x, d, Expr(static_cast<int64_t>(i))}));
  return out;
}

}  // namespace vesta::graph
