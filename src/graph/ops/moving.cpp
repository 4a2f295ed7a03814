// Elements that change position or are masked by their position: repeat, roll, flip, triangles, shuffles of pixels and
// channels.
#include "graph/ops/rows.h"
#include "graph/rules/decompose.h"

namespace vesta::graph {
namespace {

void repeat(const NodeArgs& args, Guards&, Results& results) {
  const TensorType& x = args.tensor(0);
  const IntList& times = args.integers("repeats");
  VESTA_USER_CHECK(times.size() >= x.dim(), "repeat needs a count for every dimension");
  Sizes sizes(times.begin(), times.end());
  const size_t offset = times.size() - x.dim();
  for (size_t i = 0; i < x.dim(); ++i) sizes[offset + i] = times[offset + i] * x.sizes[i];
  results = {contiguous_like(x, sizes)};
}
// Each repeated dimension becomes two. The outer one is broadcast.
std::vector<Value*> repeat_form(Builder& b, const Node& node) {
  const NodeArgs args = node.named();
  const IntList& times = args.integers("repeats");
  const TensorType& x = node.input(0)->type;
  const size_t offset = times.size() - x.dim();
  Sizes spread, wide;
  for (size_t i = 0; i < times.size(); ++i) {
    const Expr size = i < offset ? Expr(1) : x.sizes[i - offset];
    if (!times[i].is_constant(1)) {
      spread.push_back(1);
      wide.push_back(times[i]);
    }
    spread.push_back(size);
    wide.push_back(size);
  }
  if (numel(node.results[0]->type).is_constant(0)) return {};
  Value* v = b("aten::expand", {reshaped(b, node.input(0), spread), IntList(wide)});
  v = b("aten::clone", {v}, {{"memory_format", MemoryFormat::Contiguous}});
  return finish(b, node, {b("aten::_unsafe_view", {v, IntList(node.results[0]->type.sizes)})});
}

// ATen rolls by joining two halves.
void roll(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const IntList& dims = args.integers("dims");
  wrap_dims(g, dims, x.dim());
  VESTA_USER_CHECK(!args.integers("shifts").empty(), "roll needs shifts");
  VESTA_USER_CHECK(dims.empty() || x.dim() > 0, "roll cannot take dimensions of a 0-d tensor");
  VESTA_USER_CHECK(
      dims.size() == args.integers("shifts").size() || (dims.empty() && args.integers("shifts").size() == 1),
      "roll needs a shift for each dimension");
  TensorType out = x;
  const bool moves = dims.size() == 1 && !is_empty(g, x.sizes);
  out.strides = !moves ? preserved_strides(g, x) : format_strides(x.sizes, suggest_memory_format(g, x));
  if (dims.empty()) out.strides = contiguous_strides(x.sizes);
  if (dims.size() > 1) out.strides = format_strides(x.sizes, suggest_memory_format(g, x));
  // ATen joins it with an empty half, which has no channels-last strides.
  if (!dims.empty() && !is_empty(g, x.sizes) && suggest_memory_format(g, x) != MemoryFormat::Contiguous)
    for (size_t i = 0; i < dims.size(); ++i) {
      const Expr size = x.sizes[wrap_dim(g, dims[i], x.dim())];
      if (g.equal(mod(args.integers("shifts")[i], size), 0)) out.strides = contiguous_strides(x.sizes);
    }
  results = {out};
}
std::vector<Value*> roll_form(Builder& b, const Node& node) {
  const NodeArgs args = node.named();
  const IntList& dims = args.integers("dims");
  if (dims.empty() || numel(node.input(0)->type).is_constant(0)) return {};
  Value* v = node.input(0);
  for (size_t i = 0; i < dims.size(); ++i) {
    const Expr d = wrap_dim(dims[i], v->type.dim());
    const Expr size = v->type.sizes[d.constant()];
    const Expr start = mod(size - args.integers("shifts")[i], size);
    if (start.is_constant(0)) continue;
    Value* tail = b("aten::slice.Tensor", {v, d, start, size, Expr(1)});
    Value* head = b("aten::slice.Tensor", {v, d, Expr(0), start, Expr(1)});
    v = b("aten::cat", {ValueList{tail, head}, d});
  }
  if (v == node.input(0)) v = b("aten::clone", {v});
  return finish(b, node, {v});
}

void flip(const NodeArgs& args, Guards& g, Results& results) {
  wrap_dims(g, args.integers("dims"), args.tensor(0).dim());
  results = {args.tensor(0)};
  results[0].strides = preserved_strides(g, args.tensor(0));
}

// The last three dimensions are channels, rows and columns; blocks of rows and columns are channels of the other form.
void pixel_shuffle(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const Expr r = args.integer("upscale_factor");
  VESTA_USER_CHECK(x.dim() >= 3 && r.is_constant() && r.constant() > 0, "pixel_shuffle needs an image and a factor");
  const size_t c = x.dim() - 3;
  VESTA_USER_CHECK(g.equal(mod(x.sizes[c], r * r), 0),
                   "pixel_shuffle: the number of channels must be a multiple of the factor's square");
  Sizes sizes = x.sizes;
  sizes[c] = floordiv(x.sizes[c], r * r);
  sizes[c + 1] = x.sizes[c + 1] * r;
  sizes[c + 2] = x.sizes[c + 2] * r;
  results = {in_format(x, sizes, suggest_memory_format(g, x))};
}
void pixel_unshuffle(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const Expr r = args.integer("downscale_factor");
  VESTA_USER_CHECK(x.dim() >= 3 && r.is_constant() && r.constant() > 0, "pixel_unshuffle needs an image and a factor");
  const size_t c = x.dim() - 3;
  Sizes sizes = x.sizes;
  sizes[c] = x.sizes[c] * r * r;
  for (size_t i = c + 1; i < x.dim(); ++i) {
    VESTA_USER_CHECK(g.equal(mod(x.sizes[i], r), 0), "pixel_unshuffle: the sizes must be multiples of the factor");
    sizes[i] = floordiv(x.sizes[i], r);
  }
  results = {in_format(x, sizes, suggest_memory_format(g, x))};
}
void channel_shuffle(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const Expr groups = args.integer("groups");
  VESTA_USER_CHECK(x.dim() > 2 && groups.is_constant() && groups.constant() > 0 && g.equal(mod(x.sizes[1], groups), 0),
                   "channel_shuffle: the number of channels must be a multiple of the number of groups");
  results = {in_format(x, x.sizes, suggest_memory_format(g, x))};
}

void triangle(const NodeArgs& args, Guards&, Results& results) {
  const TensorType& x = args.tensor(0);
  VESTA_USER_CHECK(x.dim() >= 2, "tril and triu need at least two dimensions");
  results = {contiguous_like(x, x.sizes)};
}

constexpr OpRow kMovingRows[] = {
    composite("aten::repeat", repeat, repeat_form),
    composite("aten::roll", roll, roll_form),
    indexed("aten::flip", flip),
    indexed("aten::pixel_shuffle", pixel_shuffle),
    indexed("aten::pixel_unshuffle", pixel_unshuffle),
    indexed("aten::channel_shuffle", channel_shuffle),
    indexed("aten::tril aten::triu", triangle, kMayRaise),
};

}  // namespace

std::span<const OpRow> moving_rows() { return kMovingRows; }

}  // namespace vesta::graph
