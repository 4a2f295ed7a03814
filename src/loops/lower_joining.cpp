// Several tensors, or a tensor and a border, seen as one: each element comes from one of them, the others are not read.
#include <algorithm>

#include "graph/ops/view_strides.h"
#include "loops/lower_rows.h"

namespace vesta::loops {

namespace {

using graph::Node;
using graph::ScalarRef;
using graph::Value;
using Index = Lowering::Index;

constexpr size_t kMostPieces = 4;  // each element tests every piece; ATen's copies are better beyond

const graph::ValueList& pieces(const Node& node) { return std::get<graph::ValueList>(node.args()[0]); }

ScalarRef in_range(Lowering& l, Expr i, Expr begin, Expr end) {
  ScalarRef c = l.dag().logical_and(l.at_least(i, begin), l.less(i, end));
  return c.id == kNoRef ? l.dag().integer(DType::Bool, 1) : c;
}

// at::cat leaves one-dimensional empty tensors out whatever the others' shape.
bool is_skipped(const Value* v) { return v->type.dim() == 1 && v->type.sizes[0].is_constant(0); }

}  // namespace

std::vector<std::pair<const Value*, Expr>> pieces_of(const Node& cat) {
  const size_t d = *constant_dim(cat);
  std::vector<std::pair<const Value*, Expr>> out;
  Expr begin = 0;
  for (const Value* p : pieces(cat)) {
    if (is_skipped(p)) continue;
    out.emplace_back(p, begin);
    begin = begin + p->type.sizes[d];
  }
  return out;
}

namespace {

ScalarRef cat(Lowering& l, const Node& node, const Value* v, Index index) {
  size_t d = *constant_dim(node);
  ScalarRef result;
  const auto parts = pieces_of(node);
  DType t = scalar_type(v->type.dtype);
  for (size_t k = parts.size(); k-- > 0;) {
    auto [p, from] = parts[k];
    Expr end = from + p->type.sizes[d];
    ScalarRef here = in_range(l, index[d], from, end);
    if (l.is_false(here)) continue;
    std::vector<Expr> at(index.begin(), index.end());
    at[d] = at[d] - from;
    ScalarRef x;
    {
      Lowering::Masked masked(l, here);
      x = l.dag().cast(t, l.element(p, at));
    }
    result = result.id == kNoRef ? x : l.dag().select(l.less(index[d], end), x, result);
  }
  return result.id == kNoRef ? l.dag().integer(t, 0) : result;
}

bool accepts_cat(const Node& node) {
  if (pieces(node).size() > kMostPieces || !constant_dim(node)) return false;
  for (const Value* p : pieces(node)) {
    if (!p || (!is_skipped(p) && p->type.dim() != node.results[0]->type.dim())) return false;
  }
  return true;
}

ScalarRef stack(Lowering& l, const Node& node, const Value* v, Index index) {
  size_t d = *constant_dim(node);
  DType t = scalar_type(v->type.dtype);
  std::vector<Expr> at(index.begin(), index.end());
  at.erase(at.begin() + static_cast<int64_t>(d));
  ScalarRef result;
  for (size_t k = pieces(node).size(); k-- > 0;) {
    Expr place = static_cast<int64_t>(k);
    ScalarRef here = in_range(l, index[d], place, place + 1);
    if (l.is_false(here)) continue;
    ScalarRef x;
    {
      Lowering::Masked masked(l, here);
      x = l.dag().cast(t, l.element(pieces(node)[k], at));
    }
    result = result.id == kNoRef ? x : l.dag().select(l.less(index[d], place + 1), x, result);
  }
  return result.id == kNoRef ? l.dag().integer(t, 0) : result;
}

bool accepts_stack(const Node& node) {
  return pieces(node).size() <= kMostPieces && !pieces(node).empty() && constant_dim(node);
}

ScalarRef pad(Lowering& l, const Node& node, const Value* v, Index index) {
  const Value* x = node.input(0);
  const graph::IntList& widths = node.named().integers("pad");
  std::vector<Expr> at(index.begin(), index.end());
  ScalarRef inside = l.dag().integer(DType::Bool, 1);
  size_t n = at.size();
  for (size_t k = 0; 2 * k + 1 < widths.size(); ++k) {
    size_t d = n - 1 - k;
    at[d] = at[d] - widths[2 * k];
    ScalarRef here = in_range(l, at[d], 0, x->type.sizes[d]);
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
  ScalarRef element;
  {
    Lowering::Masked masked(l, inside);
    element = l.element(x, at);
  }
  return l.dag().select(inside, element, value);
}

bool accepts_pad(const Node& node) { return !std::holds_alternative<std::complex<double>>(node.named().get("value")); }

const graph::IntList& border_widths(const Node& node) {
  return node.named().integers(node.op->schema.index_of("pad") < 0 ? "padding" : "pad");
}

// The last dimensions padded by what they hold: `map` gives the place for position i, which may lie outside [0, n).
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
// Rows whose neighbours lie side by side ATen copies whole; read element by element they are slower.
bool accepts_pad_from_itself(const Node& node) {
  const graph::TensorType& x = node.input(0)->type;
  const graph::IntList& widths = border_widths(node);
  if (widths.empty()) return false;
  const bool changes_rows = !widths[0].is_constant(0) || !widths[1].is_constant(0);
  return !(changes_rows && x.strides.back().is_constant(1));
}

// Negative widths cut before the rest is continued.
bool accepts_pad_around(const Node& node) {
  const graph::IntList& widths = border_widths(node);
  return accepts_pad_from_itself(node) &&
         std::all_of(widths.begin(), widths.end(), [](Expr w) { return provably_at_least(w, 0); });
}

// A bound of a slice as Python reads it; nullopt when it cannot be decided for all sizes.
std::optional<Expr> bound(const graph::Arg& a, Expr size, Expr otherwise) {
  if (graph::is_none(a)) return otherwise;
  Expr e = std::get<Expr>(a);
  if (provably_less(e, 0))
    e = e + size;
  else if (!provably_at_least(e, 0))
    return std::nullopt;
  if (provably_at_least(e, size)) return size;
  if (provably_less(e, 0)) return Expr(0);
  if (!provably_at_least(e, 0) || !provably_at_least(size, e)) return std::nullopt;
  return e;
}

struct SliceOf {
  size_t dim = 0;
  Expr start, end;
  int64_t step = 1;
};

std::optional<SliceOf> slice_of(const Node& node) {
  graph::NodeArgs args = node.named();
  const graph::TensorType& t = node.input(0)->type;
  const std::optional<size_t> dim = constant_dim(node);
  if (!dim || !args.integer("step").is_constant()) return std::nullopt;
  SliceOf s;
  s.dim = *dim;
  s.step = args.integer("step").constant();
  auto start = bound(args.get("start"), t.sizes[s.dim], 0),
       end = bound(args.get("end"), t.sizes[s.dim], t.sizes[s.dim]);
  if (!start || !end || s.step < 1) return std::nullopt;
  s.start = *start;
  s.end = *end;
  return s;
}

ScalarRef slice_scatter(Lowering& l, const Node& node, const Value* v, Index index) {
  SliceOf s = *slice_of(node);
  Expr i = index[s.dim];
  ScalarRef here = in_range(l, i, s.start, s.end);
  if (s.step != 1) {
    ScalarRef on =
        l.dag().bin(Prim::Eq, l.dag().size(DType::I64, mod(i - s.start, s.step)), l.dag().integer(DType::I64, 0));
    here = l.is_true(here) ? on : l.dag().bin(Prim::And, here, on);
  }
  DType t = scalar_type(v->type.dtype);
  std::vector<Expr> at(index.begin(), index.end());
  at[s.dim] = floordiv(i - s.start, s.step);
  if (l.is_false(here)) return l.element(node.input(0), index);
  ScalarRef source;
  {
    Lowering::Masked masked(l, here);
    source = l.dag().cast(t, l.element(node.input(1), at));
  }
  if (l.is_true(here)) return source;
  ScalarRef rest;
  {
    Lowering::Masked masked(l, l.dag().un(Prim::Not, here));
    rest = l.element(node.input(0), index);
  }
  return l.dag().select(here, source, rest);
}
bool accepts_slice_scatter(const Node& node) {
  return slice_of(node).has_value() && node.input(1)->type.dim() == node.input(0)->type.dim();
}

ScalarRef select_scatter(Lowering& l, const Node& node, const Value* v, Index index) {
  size_t d = *constant_dim(node);
  Expr place = node.named().integer("index");
  if (provably_less(place, 0)) place = place + v->type.sizes[d];
  ScalarRef here = in_range(l, index[d], place, place + 1);
  std::vector<Expr> at(index.begin(), index.end());
  at.erase(at.begin() + static_cast<int64_t>(d));
  ScalarRef source;
  {
    Lowering::Masked masked(l, here);
    source = l.dag().cast(scalar_type(v->type.dtype), l.element(node.input(1), at));
  }
  if (l.is_true(here)) return source;
  return l.dag().select(here, source, l.element(node.input(0), index));
}
bool accepts_select_scatter(const Node& node) {
  Expr i = node.named().integer("index");
  return constant_dim(node) && (provably_less(i, 0) || provably_at_least(i, 0));
}

// An element is the source's where its place along dim2 is that along dim1 plus the offset, and else the base's.
ScalarRef diagonal_scatter(Lowering& l, const Node& node, const Value* v, Index index) {
  const graph::Diagonal d = graph::diagonal_of(node.named(), index.size());
  const auto row = static_cast<size_t>(d.dim1), column = static_cast<size_t>(d.dim2);
  ScalarRef here =
      l.dag().bin(Prim::Eq, l.dag().size(DType::I64, index[row] + d.offset), l.dag().size(DType::I64, index[column]));
  std::vector<Expr> at;
  for (size_t k = 0; k < index.size(); ++k)
    if (k != row && k != column) at.push_back(index[k]);
  at.push_back(index[row] + min(d.offset, 0));
  ScalarRef source;
  {
    Lowering::Masked masked(l, here);
    source = l.dag().cast(scalar_type(v->type.dtype), l.element(node.input(1), at));
  }
  return l.dag().select(here, source, l.element(node.input(0), index));
}

constexpr ElementRow kRows[] = {
    {"aten::cat", cat, accepts_cat, true, false, true},
    {"aten::stack", stack, accepts_stack, true, false, true},
    {"aten::constant_pad_nd", pad, accepts_pad, true},
    {"aten::reflection_pad1d", pad_from_itself<reflect>, accepts_pad_from_itself},
    {"aten::reflection_pad2d", pad_from_itself<reflect>, accepts_pad_from_itself},
    {"aten::reflection_pad3d", pad_from_itself<reflect>, accepts_pad_from_itself},
    {"aten::replication_pad1d", pad_from_itself<replicate>, accepts_pad_from_itself},
    {"aten::replication_pad2d", pad_from_itself<replicate>, accepts_pad_from_itself},
    {"aten::replication_pad3d", pad_from_itself<replicate>, accepts_pad_from_itself},
    {"aten::_pad_circular", pad_from_itself<around>, accepts_pad_around},
    {"aten::slice_scatter", slice_scatter, accepts_slice_scatter, true, false, true},
    {"aten::select_scatter", select_scatter, accepts_select_scatter, true, false, true},
    {"aten::diagonal_scatter", diagonal_scatter, nullptr, true, false, true},
};

}  // namespace

std::span<const ElementRow> joining_elements() { return kRows; }

}  // namespace vesta::loops
