// Views: shape rules, index maps, and writes through views.
#include <algorithm>

#include "graph/ops/rows.h"
#include "graph/rules/decompose.h"
#include "graph/rules/promotion.h"
#include "graph/rules/slices.h"
#include "graph/rules/view_strides.h"

namespace vesta::graph {
namespace {

using Index = std::vector<Expr>;

// Answers by proofs and hints and records nothing. For nodes of a graph, whose guards were recorded when they were
// added.
class KnownGuards : public Guards {
 public:
  bool equal(Expr a, Expr b) override { return provably_equal(a, b) || hint(a) == hint(b); }
  bool less(Expr a, Expr b) override { return provably_less(a, b) || hint(a) < hint(b); }
  int64_t specialize(Expr e) override { return hint(e); }
};

void give(Results& results, const TensorType& like, Sizes sizes, std::vector<Expr> strides) {
  results.assign(1, TensorType{like.dtype, std::move(sizes), std::move(strides), like.device});
}

// ---- reshape ----

void view_shape(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  Sizes sizes = infer_sizes(g, std::get<IntList>(args[1]), x);
  auto strides = view_strides(g, x, sizes);
  VESTA_USER_CHECK(strides, "the view size does not fit the tensor's size and strides");
  give(results, x, std::move(sizes), std::move(*strides));
}
Index reshape_map(const NodeArgs& args, const TensorType& result, std::span<const Expr> index) {
  return reshape_index(args.tensor(0).sizes, result.sizes, index);
}

// ---- dimensions ----

void expand_shape(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const IntList& wanted = args.integers("size");
  VESTA_USER_CHECK(wanted.size() >= x.dim(), "expand: there must not be fewer dimensions than before");
  Sizes sizes(wanted.size());
  std::vector<Expr> strides(wanted.size(), Expr(0));
  const size_t offset = wanted.size() - x.dim();
  for (size_t i = wanted.size(); i-- > 0;) {
    const bool own = i >= offset;
    Expr size = own ? x.sizes[i - offset] : Expr(1);
    Expr stride = own ? x.strides[i - offset] : x.dim() == 0 ? Expr(0) : sizes[i + 1] * strides[i + 1];
    VESTA_USER_CHECK(own || !wanted[i].is_constant(-1), "expand: -1 is not allowed for a new dimension");
    const Expr target = wanted[i].is_constant(-1) ? size : wanted[i];
    if (!(size == target)) {
      if (size.is_constant(1)) {
        stride = 0;
      } else {
        VESTA_USER_CHECK(g.equal(size, target), "expand: only dimensions of size 1 can be expanded");
      }
      if (!size.is_constant() || size.is_constant(1)) size = target;
    }
    sizes[i] = size;
    strides[i] = stride;
  }
  give(results, x, std::move(sizes), std::move(strides));
}
Index expand_map(const NodeArgs& args, const TensorType& result, std::span<const Expr> index) {
  const TensorType& x = args.tensor(0);
  const size_t offset = result.dim() - x.dim();
  Index out(x.dim());
  for (size_t i = 0; i < x.dim(); ++i) out[i] = x.sizes[i].is_constant(1) ? Expr(0) : index[offset + i];
  return out;
}

void permute_by(const TensorType& x, std::span<const int64_t> order, Results& results) {
  Sizes sizes;
  std::vector<Expr> strides;
  for (int64_t d : order) {
    sizes.push_back(x.sizes[d]);
    strides.push_back(x.strides[d]);
  }
  give(results, x, std::move(sizes), std::move(strides));
}
void permute_shape(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const std::vector<int64_t> order = wrap_dims(g, args.integers("dims"), x.dim());
  VESTA_USER_CHECK(order.size() == x.dim(), "permute needs each dimension exactly once");
  permute_by(x, order, results);
}
void transpose_shape(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  for (const char* dim : {"dim0", "dim1"}) wrap_dim(g, args.integer(dim), x.dim());
  permute_by(x, view_permutation(args), results);
}
void t_shape(const NodeArgs& args, Guards&, Results& results) {
  VESTA_USER_CHECK(args.tensor(0).dim() <= 2, "t needs at most two dimensions");
  permute_by(args.tensor(0), view_permutation(args), results);
}
Index permute_map(const NodeArgs& args, const TensorType& result, std::span<const Expr> index) {
  const std::vector<int64_t> order = view_permutation(args);
  Index out(result.dim());
  for (size_t i = 0; i < order.size(); ++i) out[order[i]] = index[i];
  return out;
}

void unsqueeze_shape(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const int64_t d = wrap_dim(g, args.integer("dim"), x.dim() + 1);
  const auto at = static_cast<size_t>(d);
  Sizes sizes = x.sizes;
  std::vector<Expr> strides = x.strides;
  const Expr stride = at >= x.dim() ? Expr(1) : x.sizes[at] * x.strides[at];
  sizes.insert(sizes.begin() + d, 1);
  strides.insert(strides.begin() + d, stride);
  give(results, x, std::move(sizes), std::move(strides));
}
Index unsqueeze_map(const NodeArgs& args, const TensorType& result, std::span<const Expr> index) {
  Index out(index.begin(), index.end());
  out.erase(out.begin() + wrap_dim(args.integer("dim"), result.dim()));
  return out;
}

// The dimensions that vanish.
std::vector<bool> squeezed_dims(const NodeArgs& args) {
  const TensorType& x = args.tensor(0);
  std::vector<bool> asked(x.dim(), args.schema().index_of("dim") < 0);
  if (args.schema().index_of("dim") >= 0 && x.dim() > 0) {
    const Arg& dim = args.get("dim");
    if (const auto* one = std::get_if<Expr>(&dim)) asked[wrap_dim(*one, x.dim())] = true;
    if (const auto* many = std::get_if<IntList>(&dim))
      for (Expr d : *many) asked[wrap_dim(d, x.dim())] = true;
  }
  for (size_t i = 0; i < x.dim(); ++i) asked[i] = asked[i] && x.sizes[i].is_constant(1);
  return asked;
}

void squeeze_shape(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  if (args.schema().index_of("dim") >= 0) {
    if (const auto* one = std::get_if<Expr>(&args.get("dim"))) wrap_dim(g, *one, x.dim());
    if (const auto* many = std::get_if<IntList>(&args.get("dim"))) wrap_dims(g, *many, x.dim());
  }
  const std::vector<bool> gone = squeezed_dims(args);
  Sizes sizes;
  std::vector<Expr> strides;
  for (size_t i = 0; i < x.dim(); ++i) {
    if (gone[i]) continue;
    sizes.push_back(x.sizes[i]);
    strides.push_back(x.strides[i]);
  }
  give(results, x, std::move(sizes), std::move(strides));
}
Index squeeze_map(const NodeArgs& args, const TensorType&, std::span<const Expr> index) {
  Index out;
  size_t next = 0;
  for (bool gone : squeezed_dims(args)) out.push_back(gone ? Expr(0) : index[next++]);
  return out;
}

// ---- parts ----

void slice_shape(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  VESTA_USER_CHECK(x.dim() > 0, "slice does not take 0-d tensors");
  const int64_t d = wrap_dim(g, args.integer("dim"), x.dim());
  const SliceRange r = slice_range(g, args, x.sizes[d]);
  TensorType out = x;
  out.sizes[d] = r.length;
  out.strides[d] = x.strides[d] * r.step;
  results.assign(1, out);
}
Index slice_map(const NodeArgs& args, const TensorType& result, std::span<const Expr> index) {
  const TensorType& x = args.tensor(0);
  const int64_t d = wrap_dim(args.integer("dim"), x.dim());
  Index out(index.begin(), index.end());
  // An empty slice still has a start. It reads nothing, so with symbolic sizes the start need not be known.
  if (result.sizes[d].is_constant(0) && !x.sizes[d].is_constant()) return out;
  KnownGuards g;
  const SliceRange r = slice_range(g, args, x.sizes[d]);
  out[d] = r.start + index[d] * r.step;
  return out;
}

Expr select_position(const NodeArgs& args, Expr size) {
  const Expr i = args.integer("index");
  return provably_at_least(i, 0) ? i : provably_less(i, 0) || hint(i) < 0 ? i + size : i;
}
void select_shape(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  VESTA_USER_CHECK(x.dim() > 0, "select does not take 0-d tensors");
  const int64_t d = wrap_dim(g, args.integer("dim"), x.dim());
  const Expr i = args.integer("index");
  VESTA_USER_CHECK(!g.less(i, -x.sizes[d]) && g.less(i, x.sizes[d]), "select: the index is out of range");
  g.less(i, 0);
  TensorType out = x;
  out.sizes.erase(out.sizes.begin() + d);
  out.strides.erase(out.strides.begin() + d);
  results.assign(1, out);
}
Index select_map(const NodeArgs& args, const TensorType& result, std::span<const Expr> index) {
  const int64_t d = wrap_dim(args.integer("dim"), result.dim() + 1);
  Index out(index.begin(), index.end());
  out.insert(out.begin() + d, select_position(args, args.tensor(0).sizes[d]));
  return out;
}

void diagonal_shape(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  wrap_dim(g, args.integer("dim1"), x.dim());
  wrap_dim(g, args.integer("dim2"), x.dim());
  const Diagonal d = diagonal_of(args, x.dim());
  VESTA_USER_CHECK(d.dim1 != d.dim2, "diagonal needs two dimensions");
  const bool below = g.less(d.offset, 0);
  const Expr rows = below ? x.sizes[d.dim1] + d.offset : x.sizes[d.dim1];
  const Expr columns = below ? x.sizes[d.dim2] : x.sizes[d.dim2] - d.offset;
  Expr length = rows == columns || g.less(rows, columns) ? rows : columns;
  if (g.less(length, 0)) length = 0;
  TensorType out = x;
  for (int64_t dim : {std::max(d.dim1, d.dim2), std::min(d.dim1, d.dim2)}) {
    out.sizes.erase(out.sizes.begin() + dim);
    out.strides.erase(out.strides.begin() + dim);
  }
  out.sizes.push_back(length);
  out.strides.push_back(x.strides[d.dim1] + x.strides[d.dim2]);
  results.assign(1, out);
}
Index diagonal_map(const NodeArgs& args, const TensorType& result, std::span<const Expr> index) {
  const Diagonal d = diagonal_of(args, result.dim() + 1);
  const bool below = hint(d.offset) < 0;
  Index out(index.begin(), index.end() - 1);
  const int64_t low = std::min(d.dim1, d.dim2), high = std::max(d.dim1, d.dim2);
  out.insert(out.begin() + low, Expr(0));
  out.insert(out.begin() + high, Expr(0));
  out[d.dim1] = below ? index.back() - d.offset : index.back();
  out[d.dim2] = below ? index.back() : index.back() + d.offset;
  return out;
}

void unfold_shape(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const int64_t d = wrap_dim(g, args.integer("dimension"), x.dim());
  const Expr size = args.integer("size"), step = args.integer("step");
  const Expr have = x.dim() == 0 ? Expr(1) : x.sizes[d];
  VESTA_USER_CHECK(!g.less(have, size) && g.less(0, step), "unfold: the window does not fit");
  TensorType out = x;
  if (x.dim() > 0) {
    out.sizes[d] = floordiv(have - size, step) + 1;
    out.strides[d] = x.strides[d] * step;
  }
  out.sizes.push_back(size);
  out.strides.push_back(x.dim() == 0 ? Expr(1) : x.strides[d]);
  results.assign(1, out);
}
Index unfold_map(const NodeArgs& args, const TensorType& result, std::span<const Expr> index) {
  if (result.dim() == 1) return {};
  const int64_t d = wrap_dim(args.integer("dimension"), result.dim() - 1);
  Index out(index.begin(), index.end() - 1);
  out[d] = index[d] * args.integer("step") + index.back();
  return out;
}

// ---- the same elements ----

void as_strided_shape(const NodeArgs& args, Guards&, Results& results) {
  give(results, args.tensor(0), args.integers("size"), args.integers("stride"));
}

// ---- complex numbers as pairs: the last index of the real view selects the part; the reader selects the part of a
// complex view ----

void view_as_real_shape(const NodeArgs& args, Guards&, Results& results) {
  TensorType out = args.tensor(0);
  VESTA_USER_CHECK(is_complex(out.dtype), "view_as_real needs complex numbers");
  out.dtype = real_of(out.dtype);
  for (Expr& s : out.strides) s = s * 2;
  out.sizes.push_back(2);
  out.strides.push_back(1);
  results.assign(1, out);
}
Index view_as_real_map(const NodeArgs&, const TensorType&, std::span<const Expr> index) {
  return {index.begin(), index.end() - 1};
}
Index view_as_complex_map(const NodeArgs&, const TensorType&, std::span<const Expr> index) {
  Index out(index.begin(), index.end());
  out.push_back(0);
  return out;
}
void view_as_complex_shape(const NodeArgs& args, Guards& g, Results& results) {
  TensorType out = args.tensor(0);
  VESTA_USER_CHECK(is_float(out.dtype) && out.dtype != DType::BF16, "view_as_complex needs a floating point type");
  VESTA_USER_CHECK(out.dim() > 0 && g.equal(out.sizes.back(), 2) && g.equal(out.strides.back(), 1),
                   "view_as_complex needs a last dimension of 2 with stride 1");
  out.sizes.pop_back();
  out.strides.pop_back();
  for (Expr& s : out.strides) {
    VESTA_USER_CHECK(g.equal(mod(s, 2), 0), "view_as_complex needs even strides");
    s = floordiv(s, 2);
  }
  out.dtype = complex_of(out.dtype);
  results.assign(1, out);
}
void view_dtype_shape(const NodeArgs& args, Guards& g, Results& results) {
  TensorType out = args.tensor(0);
  const DType t = args.dtype("dtype", out.dtype);
  const int64_t from = element_size(out.dtype), to = element_size(t);
  if (!from || !to) VESTA_UNSUPPORTED("a view with a dtype that Vesta does not support");
  out.dtype = t;
  if (from != to) {
    VESTA_USER_CHECK(out.dim() > 0 && g.equal(out.strides.back(), 1), "view(dtype) needs a last stride of 1");
    const auto scale = [&](Expr e) {
      if (from > to) return e * (from / to);
      VESTA_USER_CHECK(g.equal(mod(e, to / from), 0),
                       "view(dtype): sizes and strides must be multiples of the ratio of the element sizes");
      return floordiv(e, to / from);
    };
    out.sizes.back() = scale(out.sizes.back());
    for (size_t i = 0; i + 1 < out.dim(); ++i) out.strides[i] = scale(out.strides[i]);
  }
  results.assign(1, out);
}

// ---- writes through views: `base` with `value` where the view shows it ----

Value* reshape_back(Builder& b, const NodeArgs&, Value* base, Value* value) {
  return reshaped(b, value, base->type.sizes);
}

Value* permute_back(Builder& b, const NodeArgs& args, Value*, Value* value) {
  const std::vector<int64_t> order = view_permutation(args);
  IntList inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
  return b("aten::permute", {value, inverse});
}

Value* slice_back(Builder& b, const NodeArgs& args, Value* base, Value* value) {
  return b("aten::slice_scatter", {base, value, args.get("dim"), args.get("start"), args.get("end"), args.get("step")});
}
Value* select_back(Builder& b, const NodeArgs& args, Value* base, Value* value) {
  return b("aten::select_scatter", {base, value, args.get("dim"), args.get("index")});
}
Value* diagonal_back(Builder& b, const NodeArgs& args, Value* base, Value* value) {
  return b("aten::diagonal_scatter", {base, value, args.get("offset"), args.get("dim1"), args.get("dim2")});
}

Value* as_strided_back(Builder& b, const NodeArgs& args, Value* base, Value* value) {
  return b("aten::as_strided_scatter", {base, value, args.get("size"), args.get("stride"), args.get("storage_offset")});
}
Value* view_as_real_back(Builder& b, const NodeArgs&, Value*, Value* value) {
  Value* dense = b("aten::clone", {value}, {{"memory_format", MemoryFormat::Contiguous}});
  return b("aten::view_as_complex", {dense});
}
Value* view_as_complex_back(Builder& b, const NodeArgs&, Value*, Value* value) {
  return b("aten::view_as_real", {value});
}
Value* view_dtype_back(Builder& b, const NodeArgs&, Value* base, Value* value) {
  Value* dense = b("aten::clone", {value}, {{"memory_format", MemoryFormat::Contiguous}});
  return b("aten::view.dtype", {dense, base->type.dtype});
}

constexpr OpRow view(const char* names, ShapeRule shape, ViewMap map, ViewInverse inverse, Role role = Role::None) {
  return {.names = names, .family = Family::View, .shape = shape, .view = map, .inverse = inverse, .role = role};
}
constexpr OpRow reshape(const char* names, ShapeRule shape, ViewMap map = reshape_map) {
  return view(names, shape, map, reshape_back, Role::Reshape);
}
constexpr OpRow permute(const char* names, ShapeRule shape) {
  return view(names, shape, permute_map, permute_back, Role::Permute);
}

constexpr OpRow kViewRows[] = {
    reshape("aten::view aten::_unsafe_view", view_shape),
    view("aten::expand", expand_shape, expand_map, nullptr, Role::Part),
    permute("aten::permute", permute_shape),
    permute("aten::transpose.int", transpose_shape),
    permute("aten::t", t_shape),
    reshape("aten::unsqueeze", unsqueeze_shape, unsqueeze_map),
    reshape("aten::squeeze aten::squeeze.dim aten::squeeze.dims", squeeze_shape, squeeze_map),
    view("aten::slice.Tensor", slice_shape, slice_map, slice_back, Role::Part),
    view("aten::select.int", select_shape, select_map, select_back),
    view("aten::diagonal", diagonal_shape, diagonal_map, diagonal_back),
    view("aten::unfold", unfold_shape, unfold_map, nullptr),
    view("aten::as_strided", as_strided_shape, nullptr, as_strided_back),
    view("aten::view_as_real", view_as_real_shape, view_as_real_map, view_as_real_back),
    view("aten::view_as_complex", view_as_complex_shape, view_as_complex_map, view_as_complex_back),
    view("aten::view.dtype", view_dtype_shape, nullptr, view_dtype_back),
};

}  // namespace

std::span<const OpRow> view_rows() { return kViewRows; }

}  // namespace vesta::graph
