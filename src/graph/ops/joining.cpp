// Tensors put together: cat, stack, repeat, roll, flip.
#include "base/check.h"
#include "graph/ops/decompose.h"
#include "graph/ops/iterator_strides.h"
#include "graph/ops/promotion.h"
#include "graph/ops/rows.h"
#include "graph/ops/view_strides.h"

namespace vesta::graph {
namespace {

using Results = std::vector<TensorType>;

const ValueList& tensors_of(const NodeArgs& args) { return std::get<ValueList>(args[0]); }

// The historical exception: an empty 1-d tensor joins anything.
bool ignored(const TensorType& t) { return t.dim() == 1 && t.sizes[0].is_constant(0); }

TensorType joined(const ValueList& tensors, Expr dim, Guards& g) {
  VESTA_USER_CHECK(!tensors.empty(), "cat of no tensors");
  ResultType type;
  const TensorType* shape = nullptr;
  for (const Value* v : tensors) {
    type.add(v->type);
    VESTA_USER_CHECK(v->type.dim() > 0, "cat of a 0-d tensor");
    if (!shape && !ignored(v->type)) shape = &v->type;
  }
  TensorType out = shape ? *shape : tensors[0]->type;
  out.dtype = type.get();
  const int64_t d = wrap_dim(g, dim, out.dim());
  Expr total = 0;
  bool has_format = false;
  MemoryFormat format = MemoryFormat::Contiguous;
  for (const Value* v : tensors) {
    const MemoryFormat own = suggest_memory_format(g, v->type);
    format = !has_format || format == own ? own : MemoryFormat::Contiguous;
    has_format = true;
  }
  for (const Value* v : tensors) {
    if (ignored(v->type)) continue;
    VESTA_USER_CHECK(v->type.dim() == out.dim(), "cat of tensors of different dimensions");
    for (size_t i = 0; i < out.dim(); ++i)
      if (static_cast<int64_t>(i) != d)
        VESTA_USER_CHECK(v->type.sizes[i] == out.sizes[i] || g.equal(v->type.sizes[i], out.sizes[i]),
                         "cat: sizes differ outside dimension {}", d);
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
  VESTA_USER_CHECK(!tensors.empty(), "stack of no tensors");
  ResultType type;
  const TensorType& first = tensors[0]->type;
  for (const Value* v : tensors) {
    type.add(v->type);
    VESTA_USER_CHECK(v->type.dim() == first.dim(), "stack of tensors of different dimensions");
    for (size_t i = 0; i < first.dim(); ++i)
      VESTA_USER_CHECK(v->type.sizes[i] == first.sizes[i] || g.equal(v->type.sizes[i], first.sizes[i]),
                       "stack of tensors of different sizes");
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
  if (tensors.empty()) VESTA_UNSUPPORTED("block_diag of no tensors");
  ResultType type;
  Sizes sizes = {0, 0};
  for (const Value* v : tensors) {
    VESTA_USER_CHECK(v->type.dim() <= 2, "block_diag of a tensor with more than two dimensions");
    VESTA_USER_CHECK(v->type.device == tensors[0]->type.device, "block_diag of tensors on different devices");
    type.add(v->type);
    const auto [rows, columns] = block_sizes(v->type);
    sizes[0] = sizes[0] + rows;
    sizes[1] = sizes[1] + columns;
  }
  results = {contiguous_like(tensors[0]->type, sizes, type.get())};
}
// Rows of blocks, each between zeros.
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

void repeat(const NodeArgs& args, Guards&, Results& results) {
  const TensorType& x = args.tensor(0);
  const IntList& times = args.integers("repeats");
  VESTA_USER_CHECK(times.size() >= x.dim(), "repeat needs a count for every dimension");
  Sizes sizes(times.begin(), times.end());
  const size_t offset = times.size() - x.dim();
  for (size_t i = 0; i < x.dim(); ++i) sizes[offset + i] = times[offset + i] * x.sizes[i];
  results = {contiguous_like(x, sizes)};
}
// Each repeated dimension becomes two, the outer one broadcast.
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
  VESTA_USER_CHECK(dims.empty() || x.dim() > 0, "roll along a dimension of a 0-d tensor");
  VESTA_USER_CHECK(
      dims.size() == args.integers("shifts").size() || (dims.empty() && args.integers("shifts").size() == 1),
      "roll needs a shift for each dimension");
  TensorType out = x;
  const bool moves = dims.size() == 1 && !is_empty(g, x.sizes);
  out.strides = !moves ? preserved_strides(g, x) : format_strides(x.sizes, suggest_memory_format(g, x));
  if (dims.empty()) out.strides = contiguous_strides(x.sizes);
  if (dims.size() > 1) out.strides = format_strides(x.sizes, suggest_memory_format(g, x));
  // Joined with an empty half, which has no channels-last strides.
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
                   "pixel_shuffle: the channels are no multiple of the factor's square");
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
    VESTA_USER_CHECK(g.equal(mod(x.sizes[i], r), 0), "pixel_unshuffle: a size is no multiple of the factor");
    sizes[i] = floordiv(x.sizes[i], r);
  }
  results = {in_format(x, sizes, suggest_memory_format(g, x))};
}
void channel_shuffle(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const Expr groups = args.integer("groups");
  VESTA_USER_CHECK(x.dim() > 2 && groups.is_constant() && groups.constant() > 0 && g.equal(mod(x.sizes[1], groups), 0),
                   "channel_shuffle: the channels are no multiple of the groups");
  results = {in_format(x, x.sizes, suggest_memory_format(g, x))};
}

constexpr OpRow kRows[] = {
    {.name = "aten::cat", .family = Family::Indexed, .shape = cat, .flags = kFloat8},
    {.name = "aten::stack", .family = Family::Composite, .shape = stack, .decompose = stack_form},
    {.name = "aten::block_diag", .family = Family::Composite, .shape = block_diag, .decompose = block_diag_form},
    {.name = "aten::repeat", .family = Family::Composite, .shape = repeat, .decompose = repeat_form},
    {.name = "aten::roll", .family = Family::Composite, .shape = roll, .decompose = roll_form},
    {.name = "aten::flip", .family = Family::Indexed, .shape = flip},
    {.name = "aten::pixel_shuffle", .family = Family::Indexed, .shape = pixel_shuffle},
    {.name = "aten::pixel_unshuffle", .family = Family::Indexed, .shape = pixel_unshuffle},
    {.name = "aten::channel_shuffle", .family = Family::Indexed, .shape = channel_shuffle},
};

}  // namespace

std::span<const OpRow> joining_rows() { return kRows; }

}  // namespace vesta::graph
