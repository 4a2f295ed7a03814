// Writes at computed indices. slice_scatter, select_scatter and diagonal_scatter are lowered as elements of the whole
// or as writes; index_put, index_copy, index_add and scatter as writes.
#include <algorithm>

#include "graph/rules/view_strides.h"
#include "loops/ops/rows.h"

namespace vesta::loops {
namespace {

constexpr const char* kNoLowering = "no lowering for these arguments";

// ---- as elements of the whole, from the source or from the base ----

// A slice bound as Python reads it. nullopt: sizes do not decide it.
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
  ScalarRef here = l.in_range(i, s.start, s.end);
  if (s.step != 1) {
    ScalarRef on =
        l.dag().bin(Prim::Eq, l.dag().size(DType::I64, mod(i - s.start, s.step)), l.dag().integer(DType::I64, 0));
    here = l.is_true(here) ? on : l.dag().bin(Prim::And, here, on);
  }
  DType t = scalar_type(v->type.dtype);
  std::vector<Expr> at(index.begin(), index.end());
  at[s.dim] = floordiv(i - s.start, s.step);
  if (l.is_false(here)) return l.element(node.input(0), index);
  ScalarRef source = l.dag().cast(t, l.element_where(here, node.input(1), at));
  if (l.is_true(here)) return source;
  ScalarRef rest = l.element_where(l.dag().un(Prim::Not, here), node.input(0), index);
  return l.dag().select(here, source, rest);
}
bool accepts_slice_scatter(const Node& node) {
  return slice_of(node).has_value() && node.input(1)->type.dim() == node.input(0)->type.dim();
}

ScalarRef select_scatter(Lowering& l, const Node& node, const Value* v, Index index) {
  size_t d = *constant_dim(node);
  Expr place = node.named().integer("index");
  if (provably_less(place, 0)) place = place + v->type.sizes[d];
  ScalarRef here = l.in_range(index[d], place, place + 1);
  std::vector<Expr> at(index.begin(), index.end());
  at.erase(at.begin() + static_cast<int64_t>(d));
  ScalarRef source = l.dag().cast(scalar_type(v->type.dtype), l.element_where(here, node.input(1), at));
  if (l.is_true(here)) return source;
  return l.dag().select(here, source, l.element(node.input(0), index));
}
bool accepts_select_scatter(const Node& node) {
  Expr i = node.named().integer("index");
  return constant_dim(node) && (provably_less(i, 0) || provably_at_least(i, 0));
}

// An element comes from the source if its index along dim2 is its index along dim1 plus the offset; otherwise it comes
// from the base.
ScalarRef diagonal_scatter(Lowering& l, const Node& node, const Value* v, Index index) {
  const graph::Diagonal d = graph::diagonal_of(node.named(), index.size());
  const auto row = static_cast<size_t>(d.dim1), column = static_cast<size_t>(d.dim2);
  ScalarRef here =
      l.dag().bin(Prim::Eq, l.dag().size(DType::I64, index[row] + d.offset), l.dag().size(DType::I64, index[column]));
  std::vector<Expr> at;
  for (size_t k = 0; k < index.size(); ++k)
    if (k != row && k != column) at.push_back(index[k]);
  at.push_back(index[row] + min(d.offset, 0));
  ScalarRef source = l.dag().cast(scalar_type(v->type.dtype), l.element_where(here, node.input(1), at));
  return l.dag().select(here, source, l.element(node.input(0), index));
}

// ---- as writes of the source: slice_scatter, select_scatter ----

Written slice_written(const Node& node, const Value* source) {
  graph::NodeArgs args = node.named();
  const graph::Arg& a = args.get("start");
  const auto* start = std::get_if<Expr>(&a);
  const bool from_known = !start || start->is_constant() || provably_at_least(*start, 0);
  if (!constant_dim(node) || !from_known || !args.integer("step").is_constant() ||
      source->type.dim() != node.input(0)->type.dim()) {
    return kNoLowering;
  }
  return each_once(source->type.sizes);
}

std::vector<Expr> slice_place(Lowering&, const Node& node, Index at, const Reads&, size_t) {
  graph::NodeArgs args = node.named();
  const size_t d = *constant_dim(node);
  const Expr size = node.input(0)->type.sizes[d];
  const graph::Arg& a = args.get("start");
  Expr start = graph::is_none(a) ? Expr(0) : std::get<Expr>(a);
  if (provably_less(start, 0)) start = max(start + size, 0);
  std::vector<Expr> place(at.begin(), at.end());
  place[d] = min(start, size) + at[d] * args.integer("step");
  return place;
}

Written select_written(const Node& node, const Value* source) {
  if (!constant_dim(node) || source->type.dim() + 1 != node.input(0)->type.dim()) return kNoLowering;
  return each_once(source->type.sizes);
}

std::vector<Expr> select_place(Lowering&, const Node& node, Index at, const Reads&, size_t) {
  const size_t d = *constant_dim(node);
  Expr i = node.named().integer("index");
  if (provably_less(i, 0)) i = i + node.input(0)->type.sizes[d];
  std::vector<Expr> place(at.begin(), at.end());
  place.insert(place.begin() + static_cast<int64_t>(d), i);
  return place;
}

// ---- diagonal_scatter ----

Written diagonal_written(const Node& node, const Value* source) {
  if (!node.named().integer("offset").is_constant() || source->type.dim() + 1 != node.input(0)->type.dim())
    return kNoLowering;
  return each_once(source->type.sizes);
}

std::vector<Expr> diagonal_place(Lowering&, const Node& node, Index at, const Reads&, size_t) {
  return graph::get_op("aten::diagonal").row->view(node.named(), node.input(1)->type, at);
}

// ---- index_put ----

Written index_put_written(const Node& node, const Value* source) {
  const graph::TensorType& x = node.input(0)->type;
  const auto& given = std::get<graph::ValueList>(node.args()[1]);
  for (const Value* v : given) {
    if (v && !is_index_type(v->type)) return "a write selected by a mask";
  }
  if (given.size() > x.dim() || std::none_of(given.begin(), given.end(), [](const Value* v) { return v; })) {
    return kNoLowering;
  }
  const Indexing i = indexing(node);
  Update u = each_once(std::vector<Expr>(i.before + i.dims, Expr(1)));
  for (size_t k = 0; k < i.dims; ++k) {
    u.ordered[i.before + k] = true;
    for (const Value* v : i.by_dim) {
      const size_t lead = v ? i.dims - v->type.dim() : 0;
      if (v && k >= lead && !v->type.sizes[k - lead].is_constant(1)) u.sizes[i.before + k] = v->type.sizes[k - lead];
    }
  }
  for (size_t d = 0, at = 0; d < i.by_dim.size(); ++d) {
    if (i.by_dim[d]) continue;
    if (at < i.before) {
      u.sizes[at++] = x.sizes[d];
    } else {
      u.sizes.push_back(x.sizes[d]);
      u.ordered.push_back(false);
    }
  }
  if (source->type.dim() > u.sizes.size()) return kNoLowering;
  if (node.named().boolean("accumulate")) u.combine = Prim::Add;
  return u;
}

Reads index_put_indices(const Node& node, Index at) {
  const Indexing i = indexing(node);
  Reads reads;
  for (const Value* v : i.by_dim) {
    if (v) reads.emplace_back(v, broadcast_index(at.subspan(i.before, i.dims), v->type.sizes));
  }
  return reads;
}

std::vector<Expr> index_put_place(Lowering& l, const Node& node, Index at, const Reads& indices, size_t) {
  const Indexing i = indexing(node);
  std::vector<Expr> place;
  for (size_t d = 0, from = 0, k = 0; d < i.by_dim.size(); ++d) {
    if (i.by_dim[d]) {
      place.push_back(l.place(i.by_dim[d], indices[k++].second, node.input(0)->type.sizes[d], true));
      continue;
    }
    if (from == i.before) from += i.dims;
    place.push_back(at[from++]);
  }
  return place;
}

// ---- index_copy, index_add, scatter: indices along one dimension, which may repeat ----

const Value* index_of(const Node& node) { return node.input(2); }

Written along_dim(const Node& node, std::vector<Expr> sizes) {
  const std::optional<size_t> d = constant_dim(node);
  if (!d || !is_index_type(index_of(node)->type)) return kNoLowering;
  Update u = each_once(std::move(sizes));
  u.ordered[*d] = true;
  return u;
}

std::vector<Expr> place_along_dim(Lowering& l, const Node& node, Index at, const Reads& indices, size_t) {
  const size_t d = *constant_dim(node);
  std::vector<Expr> place(at.begin(), at.end());
  place[d] = l.place(index_of(node), indices[0].second, node.input(0)->type.sizes[d], false);
  return place;
}

Written index_copy_written(const Node& node, const Value* source) {
  if (source->type.dim() != node.input(0)->type.dim() || index_of(node)->type.dim() > 1) return kNoLowering;
  return along_dim(node, source->type.sizes);
}

Reads index_copy_indices(const Node& node, Index at) {
  std::vector<Expr> own;
  if (index_of(node)->type.dim() == 1) own.push_back(at[*constant_dim(node)]);
  return {{index_of(node), own}};
}

Written scatter_written(const Node& node, const Value* source) {
  const size_t dims = node.input(0)->type.dim();
  const graph::TensorType& index = index_of(node)->type;
  if (index.dim() != dims || (source && source->type.dim() != dims)) return kNoLowering;
  if (!source && std::holds_alternative<std::complex<double>>(node.args()[3])) return "complex numbers";
  return along_dim(node, index.sizes);
}

Reads scatter_indices(const Node& node, Index at) { return {{index_of(node), {at.begin(), at.end()}}}; }

std::optional<Prim> reduction_named(const Node& node) {
  const std::string& name = node.named().string("reduce");
  if (!node.named().boolean("include_self")) return std::nullopt;
  if (name == "sum") return Prim::Add;
  if (name == "prod") return Prim::Mul;
  if (name == "amax") return Prim::Max;
  if (name == "amin") return Prim::Min;
  return std::nullopt;
}

Written scatter_reduce_written(const Node& node, const Value* source) {
  Written w = scatter_written(node, source);
  if (auto* u = std::get_if<Update>(&w)) {
    u->combine = reduction_named(node);
    if (!u->combine) return "a mean, or a reduction that ignores the old elements";
  }
  return w;
}

// ---- the table ----

constexpr UpdateForm kSlice = {1, slice_written, no_indices, slice_place};
constexpr UpdateForm kSelect = {1, select_written, no_indices, select_place};
constexpr UpdateForm kDiagonal = {1, diagonal_written, no_indices, diagonal_place};
constexpr UpdateForm kIndexPut = {2, index_put_written, index_put_indices, index_put_place};
constexpr UpdateForm kIndexCopy = {3, index_copy_written, index_copy_indices, place_along_dim};
constexpr UpdateForm kScatter = {
    .source = 3, .written = scatter_written, .indices = scatter_indices, .place = place_along_dim, .rounds_each = true};
constexpr UpdateForm kScatterReduce = {.source = 3,
                                       .written = scatter_reduce_written,
                                       .indices = scatter_indices,
                                       .place = place_along_dim,
                                       .rounds_each = true};

constexpr LoweringRow part(const char* names, ElementFn element, bool (*accepts)(const Node&), const UpdateForm& form) {
  return {.names = names, .element = element, .accepts = accepts, .once = true, .moves = true, .update = &form};
}
constexpr LoweringRow scatter(const char* names, const UpdateForm& form, IndexCheckFn checks = checks_along_dim,
                              std::optional<Prim> combine = std::nullopt) {
  return {.names = names, .update = &form, .combine = combine, .index_checks = checks};
}

constexpr LoweringRow kScatterRows[] = {
    part("aten::slice_scatter", slice_scatter, accepts_slice_scatter, kSlice),
    part("aten::select_scatter", select_scatter, accepts_select_scatter, kSelect),
    part("aten::diagonal_scatter", diagonal_scatter, nullptr, kDiagonal),
    scatter("aten::index_put aten::_unsafe_index_put aten::_index_put_impl", kIndexPut, checks_of_indexing),
    scatter("aten::index_copy", kIndexCopy),
    scatter("aten::index_add", kIndexCopy, checks_along_dim, Prim::Add),
    scatter("aten::scatter.src aten::scatter.value", kScatter),
    scatter("aten::scatter_add", kScatter, checks_along_dim, Prim::Add),
    scatter("aten::scatter_reduce.two", kScatterReduce),
};

}  // namespace

std::span<const LoweringRow> scatter_lowerings() { return kScatterRows; }

}  // namespace vesta::loops
