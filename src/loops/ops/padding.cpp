// A tensor with a border: a number, or elements of the tensor itself.
#include <algorithm>

#include "loops/ops/rows.h"

namespace vesta::loops {
namespace {

ScalarRef pad(Lowering& l, const Node& node, const Value* v, Index index) {
  const Value* x = node.input(0);
  const graph::IntList& widths = node.named().integers("pad");
  std::vector<Expr> at(index.begin(), index.end());
  ScalarRef inside = l.dag().integer(DType::Bool, 1);
  size_t n = at.size();
  for (size_t k = 0; 2 * k + 1 < widths.size(); ++k) {
    size_t d = n - 1 - k;
    at[d] = at[d] - widths[2 * k];
    ScalarRef here = l.in_range(at[d], 0, x->type.sizes[d]);
    inside = l.is_true(inside) ? here : l.is_true(here) ? inside : l.dag().bin(Prim::And, inside, here);
  }
  ScalarRef value;
  DType t = scalar_type(v->type.dtype);
  const graph::Arg& fill = node.named().get("value");
  if (auto* f = std::get_if<double>(&fill)) {
    value = is_integral(v->type.dtype) ? l.dag().integer(t, static_cast<int64_t>(*f))
                                       : l.dag().cast(t, l.dag().cast(v->type.dtype, l.dag().constant(DType::F64, *f)));
    if (v->type.dtype == DType::Bool) value = l.dag().integer(t, *f != 0);
  } else if (auto* e = std::get_if<Expr>(&fill)) {
    value = l.dag().cast(t, l.dag().size(DType::I64, *e));
  } else {
    value = l.dag().integer(t, std::holds_alternative<bool>(fill) && std::get<bool>(fill));
  }
  if (l.is_false(inside)) return value;
  ScalarRef element = l.element_where(inside, x, at);
  return l.dag().select(inside, element, value);
}

// The pieces: the tensor itself, then for each padded dimension what is before and after the tensor along it. A border
// has all elements of the dimensions after it, and those of the tensor in the dimensions before it.
struct Border {
  size_t dim = 0;
  Expr before, after;
};

// nullopt: widths that are not known to be positive, which crop, or 0.
std::optional<std::vector<Border>> borders_of(const Node& node) {
  const graph::IntList& widths = node.named().integers("pad");
  std::vector<Border> out;
  for (size_t k = widths.size() / 2; k-- > 0;) {
    const Border b{node.results[0]->type.dim() - 1 - k, widths[2 * k], widths[2 * k + 1]};
    for (const Expr width : {b.before, b.after})
      if (!width.is_constant(0) && !provably_at_least(width, 1)) return std::nullopt;
    if (!b.before.is_constant(0) || !b.after.is_constant(0)) out.push_back(b);
  }
  return out;
}

std::vector<Piece> pieces_of_padded(const Node& node) {
  const std::optional<std::vector<Border>> borders = borders_of(node);
  if (!borders) return {};
  const Value* const x = node.input(0);
  std::vector<Piece> out = {{x, x->type.sizes}};
  for (const Border& b : *borders) {
    Piece p{nullptr, x->type.sizes};
    p.sizes[b.dim] = b.before + b.after;
    for (size_t d = b.dim + 1; d < p.sizes.size(); ++d) p.sizes[d] = node.results[0]->type.sizes[d];
    out.push_back(std::move(p));
  }
  return out;
}

std::vector<Expr> place_of_padded(Lowering&, const Node& node, Index at, const Reads&, size_t piece) {
  const std::vector<Border> borders = *borders_of(node);
  std::vector<Expr> place(at.begin(), at.end());
  for (size_t k = 0; k < borders.size() && (piece == 0 || k + 1 < piece); ++k)
    place[borders[k].dim] = place[borders[k].dim] + borders[k].before;
  if (piece == 0) return place;
  const Border& own = borders[piece - 1];
  Expr& i = place[own.dim];
  if (own.after.is_constant(0)) return place;
  // 0 before the tensor, 1 after it
  Expr side = own.before.is_constant(0) ? Expr(1) : floordiv(i, own.before);
  if (!provably_at_least(own.before, own.after)) side = min(side, 1);
  i = i + side * node.input(0)->type.sizes[own.dim];
  return place;
}

constexpr UpdateForm kPadded = {
    .source = 2, .written = nullptr, .indices = no_indices, .place = place_of_padded, .pieces = pieces_of_padded};

bool accepts_pad(const Node& node) { return !std::holds_alternative<std::complex<double>>(node.named().get("value")); }

const graph::IntList& border_widths(const Node& node) {
  return node.named().integers(node.op->schema.index_of("pad") < 0 ? "padding" : "pad");
}

// Pads the last dimensions with their own elements: `map` gives the index for position i, which may lie outside [0, n).
template <Expr (*kMap)(Expr i, Expr n)>
ScalarRef pad_from_itself(Lowering& l, const Node& node, const Value*, Index index) {
  const Value* x = node.input(0);
  const graph::IntList& widths = border_widths(node);
  std::vector<Expr> at(index.begin(), index.end());
  for (size_t k = 0; 2 * k + 1 < widths.size(); ++k) {
    size_t d = at.size() - 1 - k;
    at[d] = kMap(at[d] - widths[2 * k], x->type.sizes[d]);
  }
  return l.element(x, at);
}
Expr reflect(Expr i, Expr n) {
  Expr last = n - 1, from_start = max(i, -i);
  return last - max(last - from_start, from_start - last);
}
Expr replicate(Expr i, Expr n) { return min(max(i, 0), n - 1); }
Expr around(Expr i, Expr n) { return n.is_constant(0) ? Expr(0) : mod(i, n); }
// ATen copies contiguous rows whole; reading them element by element is slower.
bool accepts_pad_from_itself(const Node& node) {
  const graph::TensorType& x = node.input(0)->type;
  const graph::IntList& widths = border_widths(node);
  if (widths.empty()) return false;
  const bool changes_rows = !widths[0].is_constant(0) || !widths[1].is_constant(0);
  return !(changes_rows && x.strides.back().is_constant(1));
}

// ATen crops by negative widths before it repeats the rest.
bool accepts_pad_around(const Node& node) {
  const graph::IntList& widths = border_widths(node);
  return accepts_pad_from_itself(node) &&
         std::all_of(widths.begin(), widths.end(), [](Expr w) { return provably_at_least(w, 0); });
}

constexpr LoweringRow from_itself(const char* names, ElementFn element,
                                  bool (*accepts)(const Node&) = accepts_pad_from_itself) {
  return {.names = names, .element = element, .accepts = accepts};
}

constexpr LoweringRow kPaddingRows[] = {
    {.names = "aten::constant_pad_nd", .element = pad, .accepts = accepts_pad, .once = true, .update = &kPadded},
    from_itself("aten::reflection_pad1d aten::reflection_pad2d aten::reflection_pad3d", pad_from_itself<reflect>),
    from_itself("aten::replication_pad1d aten::replication_pad2d aten::replication_pad3d", pad_from_itself<replicate>),
    from_itself("aten::_pad_circular", pad_from_itself<around>, accepts_pad_around),
};

}  // namespace

std::span<const LoweringRow> padding_lowerings() { return kPaddingRows; }

}  // namespace vesta::loops
