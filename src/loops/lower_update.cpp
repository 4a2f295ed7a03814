// Writes at computed places: slice_scatter, index_put, scatter and their like, as stores into a buffer that already
// holds their first operand.
#include <algorithm>
#include <variant>

#include "graph/graph.h"
#include "loops/lower.h"
#include "loops/places.h"

namespace vesta::loops {

namespace {

using graph::Node;
using graph::ScalarRef;
using graph::Value;
using Index = Lowering::Index;
using Reads = std::vector<std::pair<const Value*, std::vector<Expr>>>;

// What is written, or why this stage cannot.
using Written = std::variant<Update, const char*>;
constexpr const char* kNoLowering = "no lowering for these arguments";

// No place comes twice.
Update each_once(std::vector<Expr> sizes) {
  Update u;
  u.ordered.assign(sizes.size(), false);
  u.sizes = std::move(sizes);
  return u;
}

Reads no_indices(const Node&, Index) { return {}; }

// ---- slice_scatter, select_scatter

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

std::vector<Expr> slice_place(Lowering&, const Node& node, Index at, const Reads&) {
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

std::vector<Expr> select_place(Lowering&, const Node& node, Index at, const Reads&) {
  const size_t d = *constant_dim(node);
  Expr i = node.named().integer("index");
  if (provably_less(i, 0)) i = i + node.input(0)->type.sizes[d];
  std::vector<Expr> place(at.begin(), at.end());
  place.insert(place.begin() + static_cast<int64_t>(d), i);
  return place;
}

// ---- diagonal_scatter

Written diagonal_written(const Node& node, const Value* source) {
  if (!node.named().integer("offset").is_constant() || source->type.dim() + 1 != node.input(0)->type.dim())
    return kNoLowering;
  return each_once(source->type.sizes);
}

std::vector<Expr> diagonal_place(Lowering&, const Node& node, Index at, const Reads&) {
  return graph::get_op("aten::diagonal").row->view(node.named(), node.input(1)->type, at);
}

// ---- index_put

Written index_put_written(const Node& node, const Value* source) {
  const graph::TensorType& x = node.input(0)->type;
  const auto& given = std::get<graph::ValueList>(node.args()[1]);
  for (const Value* v : given) {
    if (v && !is_place(v->type)) return "writes where a mask is true";
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

std::vector<Expr> index_put_place(Lowering& l, const Node& node, Index at, const Reads& indices) {
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

// ---- index_copy, index_add, scatter: places along one dimension, which may come again

const Value* index_of(const Node& node) { return node.input(2); }

Written along_dim(const Node& node, std::vector<Expr> sizes) {
  const std::optional<size_t> d = constant_dim(node);
  if (!d || !is_place(index_of(node)->type)) return kNoLowering;
  Update u = each_once(std::move(sizes));
  u.ordered[*d] = true;
  return u;
}

std::vector<Expr> place_along_dim(Lowering& l, const Node& node, Index at, const Reads& indices) {
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
    if (!u->combine) return "a mean, or without the elements themselves";
  }
  return w;
}

// ---- the table

struct Form {
  size_t source;  // the argument that is written: a tensor (the functions get nullptr otherwise) or a number
  Written (*written)(const Node& node, const Value* source);
  Reads (*indices)(const Node& node, Index at);  // read to know the place of element `at`
  std::vector<Expr> (*place)(Lowering& l, const Node& node, Index at, const Reads& indices);
};

constexpr Form kSlice = {1, slice_written, no_indices, slice_place};
constexpr Form kSelect = {1, select_written, no_indices, select_place};
constexpr Form kDiagonal = {1, diagonal_written, no_indices, diagonal_place};
constexpr Form kIndexPut = {2, index_put_written, index_put_indices, index_put_place};
constexpr Form kIndexCopy = {3, index_copy_written, index_copy_indices, place_along_dim};
constexpr Form kScatter = {3, scatter_written, scatter_indices, place_along_dim};
constexpr Form kScatterReduce = {3, scatter_reduce_written, scatter_indices, place_along_dim};

struct Row {
  const char* name;
  const Form& form;
  std::optional<Prim> combine = std::nullopt;
};

constexpr Row kRows[] = {
    {"aten::slice_scatter", kSlice},
    {"aten::select_scatter", kSelect},
    {"aten::diagonal_scatter", kDiagonal},
    {"aten::index_put", kIndexPut},
    {"aten::_unsafe_index_put", kIndexPut},
    {"aten::index_copy", kIndexCopy},
    {"aten::index_add", kIndexCopy, Prim::Add},
    {"aten::scatter.src", kScatter},
    {"aten::scatter.value", kScatter},
    {"aten::scatter_add", kScatter, Prim::Add},
    {"aten::scatter_reduce.two", kScatterReduce},
};

const Row* find(const Node& node) {
  auto it = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return node.op->name == r.name; });
  return it == std::end(kRows) ? nullptr : it;
}

const Value* source_of(const Node& node, const Form& form) {
  auto* v = std::get_if<Value*>(&node.args()[form.source]);
  return v ? *v : nullptr;
}

bool is_concatenation(const Node& node) { return node.op->name == "aten::cat"; }

Written written(const Node& node, size_t piece) {
  if (is_concatenation(node)) return each_once(pieces_of(node).at(piece).first->type.sizes);
  const Row* row = find(node);
  if (!row) return "writes at computed places";
  if (node.results.size() != 1 || !node.results[0]) return "several results";
  const graph::TensorType& x = node.input(0)->type;
  if (is_complex(x.dtype)) return "complex numbers";
  const Value* source = source_of(node, row->form);
  if (source && source->type.dtype != x.dtype) return "writes elements of another type";
  Written w = row->form.written(node, source);
  if (auto* u = std::get_if<Update>(&w)) {
    if (row->combine) u->combine = row->combine;
    if (u->combine && x.dtype == DType::Bool) return "sums of bool";
    // ATen sums these in float32, where each index stands for a whole row; here each step would be rounded.
    const bool rounds = u->combine == Prim::Add || u->combine == Prim::Mul;
    const bool half = is_narrow(x.dtype);
    if (rounds && half && (&row->form == &kScatter || &row->form == &kScatterReduce)) return "sums in half precision";
  }
  return w;
}

}  // namespace

std::optional<Update> update_of(const Node& node, std::string* why, size_t piece) {
  Written w = written(node, piece);
  if (auto* u = std::get_if<Update>(&w)) return std::move(*u);
  if (why) *why = std::get<const char*>(w);
  return std::nullopt;
}

bool adds_in_any_order(const Node& node) {
  const std::optional<Update> update = update_of(node);
  return update && update->combine == Prim::Add && adds_atomically(node.input(0)->type.dtype);
}

Reads update_reads(const Node& node, Index at, size_t piece) {
  if (is_concatenation(node)) return {{pieces_of(node).at(piece).first, {at.begin(), at.end()}}};
  const Form& form = find(node)->form;
  Reads reads = form.indices(node, at);
  if (const Value* source = source_of(node, form)) reads.emplace_back(source, broadcast_index(at, source->type.sizes));
  return reads;
}

void Lowering::update(const Node& node, Index at, const MemoryRef& to, size_t piece) {
  if (is_concatenation(node)) {
    auto [x, begin] = pieces_of(node).at(piece);
    std::vector<Expr> place(at.begin(), at.end());
    Expr& along = place[*constant_dim(node)];
    along = along + begin;
    dag_.store(to.buffer, offset_of(to, place), element(x, at));
    computed(&node);
    return;
  }
  const Form& form = find(node)->form;
  const DType own = node.input(0)->type.dtype, t = opmath(own);
  const Reads reads = update_reads(node, at);
  const Expr offset = offset_of(to, form.place(*this, node, at, reads));
  ScalarRef v = source_of(node, form) ? element(reads.back().first, reads.back().second)
                                      : dag_.cast(t, number(node.args()[form.source], own));
  if (node.op->schema.index_of("alpha") >= 0) {
    const graph::Arg& alpha = node.named().get("alpha");
    const Expr* one = std::get_if<Expr>(&alpha);
    if (!one || !one->is_constant(1)) v = dag_.bin(Prim::Mul, v, dag_.cast(t, number(alpha, t)));
  }
  if (manner_.adds_atomically && adds_in_any_order(node)) {
    dag_.store_add(to.buffer, offset, v);
    computed(&node);
    return;
  }
  if (const std::optional<Prim> combine = update_of(node)->combine) {
    dag_.run_in_order();
    v = dag_.bin(*combine, dag_.cast(t, dag_.load(to.buffer, offset)), v);
  }
  dag_.store(to.buffer, offset, v);
  computed(&node);
}

}  // namespace vesta::loops
