// Writes at computed places: slice_scatter, index_put, scatter and their like, as stores into a buffer that already
// holds their first operand.
#include <algorithm>

#include "base/check.h"
#include "loops/lower.h"
#include "loops/places.h"

namespace vesta::loops {

namespace {

using graph::Node;
using graph::ScalarRef;
using graph::Value;
using Reads = std::vector<std::pair<const Value*, std::vector<Expr>>>;

enum class Kind : uint8_t { Piece, Slice, Select, IndexPut, IndexCopy, IndexAdd, Scatter };

struct Row {
  const char* name;
  Kind kind;
  std::optional<Prim> combine;
};

constexpr Row kRows[] = {
    {"aten::cat", Kind::Piece, std::nullopt},
    {"aten::slice_scatter", Kind::Slice, std::nullopt},
    {"aten::select_scatter", Kind::Select, std::nullopt},
    {"aten::index_put", Kind::IndexPut, std::nullopt},
    {"aten::_unsafe_index_put", Kind::IndexPut, std::nullopt},
    {"aten::index_copy", Kind::IndexCopy, std::nullopt},
    {"aten::index_add", Kind::IndexAdd, Prim::Add},
    {"aten::scatter.src", Kind::Scatter, std::nullopt},
    {"aten::scatter.value", Kind::Scatter, std::nullopt},
    {"aten::scatter_add", Kind::Scatter, Prim::Add},
    {"aten::scatter_reduce.two", Kind::Scatter, std::nullopt},
};

const Row* find(const Node& node) {
  auto it = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return node.op->name == r.name; });
  return it == std::end(kRows) ? nullptr : it;
}

// The argument that holds the index, and what is written: a tensor or a number.
const Value* index_of(const Node& node) { return node.input(2); }
const graph::Arg& source_arg(const Node& node, Kind kind) {
  return node.args()[kind == Kind::Slice || kind == Kind::Select ? 1 : kind == Kind::IndexPut ? 2 : 3];
}
const Value* source_of(const Node& node, Kind kind) {
  auto* v = std::get_if<Value*>(&source_arg(node, kind));
  return v ? *v : nullptr;
}

std::optional<Prim> reduction_named(const Node& node) {
  const std::string& name = node.named().string("reduce");
  if (!node.named().boolean("include_self")) return std::nullopt;
  if (name == "sum") return Prim::Add;
  if (name == "prod") return Prim::Mul;
  if (name == "amax") return Prim::Max;
  if (name == "amin") return Prim::Min;
  return std::nullopt;
}

bool constant_start(const Node& node, const char* name) {
  const graph::Arg& a = node.named().get(name);
  return graph::is_none(a) || std::get<Expr>(a).is_constant() || provably_at_least(std::get<Expr>(a), 0);
}

}  // namespace

std::optional<Update> update_of(const Node& node, std::string* why, size_t piece) {
  auto refuse = [&](const char* reason) -> std::optional<Update> {
    if (why) *why = reason;
    return std::nullopt;
  };
  const Row* row = find(node);
  if (!row) return refuse("writes at computed places");
  if (node.results.size() != 1 || !node.results[0]) return refuse("several results");
  if (row->kind == Kind::Piece) {
    Update u;
    u.sizes = pieces_of(node).at(piece).first->type.sizes;
    u.ordered.assign(u.sizes.size(), false);
    return u;
  }
  const graph::TensorType& x = node.input(0)->type;
  if (is_complex(x.dtype)) return refuse("complex numbers");
  const Value* source = source_of(node, row->kind);
  if (source && source->type.dtype != x.dtype) return refuse("writes elements of another type");
  Update u;
  u.combine = row->combine;
  if (row->kind == Kind::Slice || row->kind == Kind::Select) {
    std::optional<size_t> d = constant_dim(node);
    if (!d || source->type.dim() + (row->kind == Kind::Select) != x.dim())
      return refuse("no lowering for these arguments");
    if (row->kind == Kind::Slice && (!node.named().integer("step").is_constant() || !constant_start(node, "start"))) {
      return refuse("no lowering for these arguments");
    }
    u.sizes = source->type.sizes;
    u.ordered.assign(u.sizes.size(), false);
    return u;
  }
  if (row->kind == Kind::IndexPut) {
    const auto& given = std::get<graph::ValueList>(node.args()[1]);
    for (const Value* v : given) {
      if (v && !is_place(v->type)) return refuse("writes where a mask is true");
    }
    if (given.size() > x.dim() || std::none_of(given.begin(), given.end(), [](const Value* v) { return v; })) {
      return refuse("no lowering for these arguments");
    }
    Indexing i = indexing(node);
    u.sizes.assign(i.before + i.dims, Expr(1));
    u.ordered.assign(i.before + i.dims, false);
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
    if (source->type.dim() > u.sizes.size()) return refuse("no lowering for these arguments");
    if (node.named().boolean("accumulate")) u.combine = Prim::Add;
  } else {
    std::optional<size_t> d = constant_dim(node);
    const graph::TensorType& index = index_of(node)->type;
    if (!d || !is_place(index)) return refuse("no lowering for these arguments");
    if (row->kind == Kind::Scatter) {
      if (index.dim() != x.dim() || (source && source->type.dim() != x.dim()))
        return refuse("no lowering for these arguments");
      const graph::Arg& value = source_arg(node, row->kind);
      if (!source && std::holds_alternative<std::complex<double>>(value)) return refuse("complex numbers");
      u.sizes = index.sizes;
    } else {
      if (source->type.dim() != x.dim() || index.dim() > 1) return refuse("no lowering for these arguments");
      u.sizes = source->type.sizes;
    }
    u.ordered.assign(u.sizes.size(), false);
    u.ordered[*d] = true;
    if (node.op->name == "aten::scatter_reduce.two") {
      u.combine = reduction_named(node);
      if (!u.combine) return refuse("a mean, or without the elements themselves");
    }
  }
  if (u.combine && x.dtype == DType::Bool) return refuse("sums of bool");
  return u;
}

Reads update_reads(const Node& node, std::span<const Expr> at, size_t piece) {
  const Row* row = find(node);
  if (row->kind == Kind::Piece) return {{pieces_of(node).at(piece).first, {at.begin(), at.end()}}};
  const Value* source = source_of(node, row->kind);
  Reads reads;
  if (row->kind == Kind::IndexPut) {
    Indexing i = indexing(node);
    for (const Value* v : i.by_dim) {
      if (v) reads.emplace_back(v, broadcast_index(at.subspan(i.before, i.dims), v->type.sizes));
    }
    reads.emplace_back(source, broadcast_index(at, source->type.sizes));
    return reads;
  }
  if (row->kind == Kind::IndexCopy || row->kind == Kind::IndexAdd) {
    std::vector<Expr> own;
    if (index_of(node)->type.dim() == 1) own.push_back(at[*constant_dim(node)]);
    reads.emplace_back(index_of(node), own);
  } else if (row->kind == Kind::Scatter) {
    reads.emplace_back(index_of(node), std::vector<Expr>(at.begin(), at.end()));
  }
  if (source) reads.emplace_back(source, std::vector<Expr>(at.begin(), at.end()));
  return reads;
}

void Lowering::update(const Node& node, Index at, const Held& to, size_t piece) {
  const Row* row = find(node);
  if (row->kind == Kind::Piece) {
    auto [x, begin] = pieces_of(node).at(piece);
    std::vector<Expr> place(at.begin(), at.end());
    const Expr dim = node.named().integer("dim");
    const auto n = static_cast<int64_t>(at.size());
    Expr& along = place[static_cast<size_t>(dim.constant() < 0 ? dim.constant() + n : dim.constant())];
    along = along + begin;
    dag_.store(to.buffer, to.dtype, offset_of(to, place), element(x, at));
    computed(&node);
    return;
  }
  const Update u = *update_of(node);
  const Value* x = node.input(0);
  std::vector<Expr> place(at.begin(), at.end());
  Reads reads = update_reads(node, at);
  switch (row->kind) {
    case Kind::Slice: {
      graph::NodeArgs args = node.named();
      const size_t d = *constant_dim(node);
      const graph::Arg& a = args.get("start");
      Expr start = graph::is_none(a) ? Expr(0) : std::get<Expr>(a);
      if (provably_less(start, 0)) start = max(start + x->type.sizes[d], 0);
      place[d] = min(start, x->type.sizes[d]) + at[d] * args.integer("step");
      break;
    }
    case Kind::Select: {
      const size_t d = *constant_dim(node);
      Expr i = node.named().integer("index");
      if (provably_less(i, 0)) i = i + x->type.sizes[d];
      place.insert(place.begin() + static_cast<int64_t>(d), i);
      break;
    }
    case Kind::IndexPut: {
      Indexing i = indexing(node);
      place.clear();
      for (size_t d = 0, from = 0, k = 0; d < i.by_dim.size(); ++d) {
        if (i.by_dim[d]) {
          place.push_back(this->place(i.by_dim[d], reads[k++].second, x->type.sizes[d], true));
          continue;
        }
        if (from == i.before) from += i.dims;
        place.push_back(at[from++]);
      }
      break;
    }
    default: {
      const size_t d = *constant_dim(node);
      place[d] = this->place(index_of(node), reads[0].second, x->type.sizes[d], false);
    }
  }
  ScalarRef v;
  const DType t = opmath(x->type.dtype);
  if (source_of(node, row->kind)) {
    v = element(reads.back().first, reads.back().second);
  } else {
    v = dag_.cast(t, number(source_arg(node, row->kind), x->type.dtype));
  }
  if (row->kind == Kind::IndexAdd) {
    const graph::Arg& alpha = node.named().get("alpha");
    const Expr* one = std::get_if<Expr>(&alpha);
    if (!one || !one->is_constant(1)) v = dag_.bin(Prim::Mul, v, dag_.cast(t, number(alpha, t)));
  }
  const Expr offset = offset_of(to, place);
  if (u.combine) {
    dag_.run_in_order();
    v = dag_.bin(*u.combine, dag_.cast(t, dag_.load(to.buffer, to.dtype, offset)), v);
  }
  dag_.store(to.buffer, to.dtype, offset, v);
  computed(&node);
}

}  // namespace vesta::loops
