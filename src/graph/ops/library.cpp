// Operators of no other family with known shapes, as calls into ATen: images and patches, distances, bags, losses of
// classes.
#include <algorithm>

#include "graph/ops/rows.h"
#include "graph/rules/window.h"

namespace vesta::graph {
namespace {

bool reduces(const NodeArgs& args) { return args.integer("reduction").constant() != 0; }

// ---- images ----

template <size_t N>
void grid_sampler(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const TensorType& grid = args.tensor(1);
  VESTA_USER_CHECK(x.dim() == N + 2 && grid.dim() == N + 2, "grid_sampler: wrong number of dimensions");
  VESTA_USER_CHECK(x.dtype == grid.dtype && is_float(x.dtype), "grid_sampler: wrong element types");
  VESTA_USER_CHECK(g.equal(x.sizes[0], grid.sizes[0]) && g.equal(grid.sizes[N + 1], static_cast<int64_t>(N)),
                   "grid_sampler: the grid does not fit");
  VESTA_USER_CHECK(!is_empty(g, std::span(x.sizes).subspan(2)), "grid_sampler: the image is empty");
  Sizes sizes = {x.sizes[0], x.sizes[1]};
  sizes.insert(sizes.end(), grid.sizes.begin() + 1, grid.sizes.end() - 1);
  results = {contiguous_like(x, sizes)};
}

// The total of sliding windows over an image of `size`.
Expr window_total(const NodeArgs& args, Guards& g, std::span<const Expr> size) {
  const IntList kernel = spatial(args, "kernel_size", 2), dilation = spatial(args, "dilation", 2);
  const IntList padding = spatial(args, "padding", 2), stride = spatial(args, "stride", 2);
  Expr total = 1;
  for (size_t d = 0; d < 2; ++d) {
    VESTA_USER_CHECK(g.less(0, kernel[d]) && g.less(0, dilation[d]) && g.less(0, stride[d]) && !g.less(padding[d], 0),
                     "sliding windows: kernel, dilation and stride must be positive");
    const Expr n = window_count(g, size[d], kernel[d], stride[d], padding[d], dilation[d], false);
    VESTA_USER_CHECK(g.less(0, n), "sliding windows: the image is smaller than one window");
    total = total * n;
  }
  return total;
}
void im2col(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  VESTA_USER_CHECK(x.dim() == 3 || x.dim() == 4, "im2col: expected an image");
  const auto image = std::span(x.sizes).last(3);
  VESTA_USER_CHECK(!is_empty(g, image), "im2col: the image is empty");
  const Expr windows = window_total(args, g, image.subspan(1));
  const IntList kernel = spatial(args, "kernel_size", 2);
  Sizes sizes(x.sizes.begin(), x.sizes.end() - 3);
  sizes.insert(sizes.end(), {image[0] * kernel[0] * kernel[1], windows});
  results = {contiguous_like(x, sizes)};
}
void col2im(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  VESTA_USER_CHECK(x.dim() == 2 || x.dim() == 3, "col2im: expected columns");
  VESTA_USER_CHECK(!is_empty(g, std::span(x.sizes).last(2)), "col2im: there are no columns");
  const IntList image = spatial(args, "output_size", 2), kernel = spatial(args, "kernel_size", 2);
  const Expr values = x.sizes[x.dim() - 2], area = kernel[0] * kernel[1];
  VESTA_USER_CHECK(g.equal(mod(values, area), 0), "col2im: the columns do not fit the kernel");
  VESTA_USER_CHECK(g.equal(x.sizes.back(), window_total(args, g, image)),
                   "col2im: the number of columns does not fit the number of windows");
  Sizes sizes(x.sizes.begin(), x.sizes.end() - 2);
  sizes.insert(sizes.end(), {floordiv(values, area), image[0], image[1]});
  results = {contiguous_like(x, sizes)};
}

// ---- distances ----

void cdist(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& a = args.tensor(0);
  const TensorType& b = args.tensor(1);
  VESTA_USER_CHECK(a.dim() >= 2 && b.dim() >= 2 && g.equal(a.sizes.back(), b.sizes.back()), "cdist: sizes differ");
  VESTA_USER_CHECK(is_float(a.dtype), "cdist needs a floating point type");
  const Sizes of_a(a.sizes.begin(), a.sizes.end() - 2), of_b(b.sizes.begin(), b.sizes.end() - 2);
  Sizes sizes = broadcast(g, of_a, of_b);
  sizes.insert(sizes.end(), {a.sizes[a.dim() - 2], b.sizes[b.dim() - 2]});
  results = {contiguous_like(a, sizes)};
}
void pdist(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  VESTA_USER_CHECK(x.dim() == 2 && is_float(x.dtype), "pdist: expected a matrix");
  const Expr n = x.sizes[0];
  results = {contiguous_like(x, {g.less(n, 2) ? Expr(0) : floordiv(n * (n - 1), 2)})};
}

// ---- elements ----

void frexp(const NodeArgs& args, Guards& g, Results& results) {
  VESTA_USER_CHECK(is_float(args.tensor(0).dtype), "frexp needs a floating point type");
  const TensorType mantissa = preserved(g, args.tensor(0));
  results = {mantissa, mantissa};
  results[1].dtype = DType::I32;
}
void renorm(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  VESTA_USER_CHECK(x.dim() > 1 && (is_float(x.dtype) || is_complex(x.dtype)), "renorm: expected a matrix of floats");
  wrap_dim(g, args.integer("dim"), x.dim());
  results = {contiguous_like(x, x.sizes)};
}
void is_in(const NodeArgs& args, Guards&, Results& results) {
  const TensorType& x = args.tensor(0);
  results = {contiguous_like(x, x.sizes, DType::Bool)};
}

// Elements on and below a diagonal of a matrix.
int64_t lower_triangle(int64_t rows, int64_t columns, int64_t diagonal) {
  int64_t total = 0;
  if (rows == 0 || columns == 0) return 0;
  const int64_t first = diagonal > 0 ? std::min(columns, 1 + diagonal) : rows + diagonal > 0;
  const int64_t last = std::max<int64_t>(0, std::min(columns, rows + diagonal));
  const int64_t reached = std::max<int64_t>(0, std::min(rows, rows + diagonal));
  const int64_t sloped = last - first + 1;
  total = (first + last) * sloped / 2;
  return reached > sloped ? total + (reached - sloped) * columns : total;
}
template <bool kLower>
void triangle_indices(const NodeArgs& args, Guards& g, Results& results) {
  const int64_t rows = g.specialize(args.integer("row")), columns = g.specialize(args.integer("col"));
  const int64_t diagonal = g.specialize(args.integer("offset"));
  VESTA_USER_CHECK(rows >= 0 && columns >= 0, "a matrix cannot have a negative size");
  const int64_t n =
      kLower ? lower_triangle(rows, columns, diagonal) : rows * columns - lower_triangle(rows, columns, diagonal - 1);
  const auto* device = std::get_if<Device>(&args.get("device"));
  TensorType like{.dtype = args.dtype("dtype", DType::I64), .sizes = {}, .strides = {}, .device = {}};
  if (device) like.device = *device;
  results = {contiguous_like(like, {2, n})};
}

// The sum of products of three tensors. Each gets new dimensions first.
void trilinear(const NodeArgs& args, Guards& g, Results& results) {
  static constexpr const char* kNew[] = {"expand1", "expand2", "expand3"};
  Sizes all;
  for (size_t i = 0; i < 3; ++i) {
    const TensorType& x = args.tensor(i);
    VESTA_USER_CHECK(x.dtype == args.tensor(0).dtype, "_trilinear: the operands have different types");
    const IntList& added = args.integers(kNew[i]);
    Sizes sizes;
    for (size_t d = 0, next = 0; d < x.dim() + added.size(); ++d) {
      const bool is_new = std::find(added.begin(), added.end(), Expr(static_cast<int64_t>(d))) != added.end();
      VESTA_USER_CHECK(is_new || next < x.dim(), "_trilinear: dimensions are out of range");
      sizes.push_back(is_new ? Expr(1) : x.sizes[next++]);
    }
    VESTA_USER_CHECK(i == 0 || sizes.size() == all.size(), "_trilinear: the dimensions differ");
    all = i == 0 ? sizes : broadcast(g, all, sizes);
  }
  Sizes sizes;
  const IntList& summed = args.integers("sumdim");
  for (size_t d = 0; d < all.size(); ++d) {
    if (std::find(summed.begin(), summed.end(), Expr(static_cast<int64_t>(d))) == summed.end()) sizes.push_back(all[d]);
  }
  results = {contiguous_like(args.tensor(0), sizes)};
}

// ---- losses ----

void binary_cross_entropy(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const TensorType& target = args.tensor(1);
  VESTA_USER_CHECK(is_float(x.dtype) && x.dtype == target.dtype, "binary_cross_entropy: wrong element types");
  VESTA_USER_CHECK(same_sizes(g, x.sizes, target.sizes), "binary_cross_entropy: sizes differ");
  results = {reduces(args) ? contiguous_like(x, {}) : preserved(g, x)};
}
// One loss for each row of a matrix, or one for a vector.
TensorType loss_of_rows(const NodeArgs& args, size_t target_dims_of_rows) {
  const TensorType& x = args.tensor(0);
  VESTA_USER_CHECK(x.dim() <= 2 && is_float(x.dtype), "the loss needs a matrix of floats");
  const bool each = !reduces(args) && args.tensor(1).dim() >= target_dims_of_rows;
  const Expr rows = x.dim() == 2 ? x.sizes[0] : Expr(1);
  return contiguous_like(x, each ? Sizes{rows} : Sizes{});
}
void multi_margin_loss(const NodeArgs& args, Guards&, Results& results) { results = {loss_of_rows(args, 1)}; }
void multilabel_margin_loss(const NodeArgs& args, Guards&, Results& results) {
  const TensorType& x = args.tensor(0);
  results = {loss_of_rows(args, 2), contiguous_like(x, args.tensor(1).sizes)};
}
void nll_loss2d(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const TensorType& target = args.tensor(1);
  VESTA_USER_CHECK(x.dim() == 4 && target.dim() == 3 && is_float(x.dtype), "nll_loss2d: wrong dimensions");
  for (size_t d = 0; d < 3; ++d) {
    VESTA_USER_CHECK(g.equal(x.sizes[d ? d + 1 : 0], target.sizes[d]), "nll_loss2d: sizes differ");
  }
  results = {contiguous_like(x, reduces(args) ? Sizes{} : target.sizes), contiguous_like(x, {})};
}

constexpr OpRow kLibraryRows[] = {
    call("aten::grid_sampler_2d", grid_sampler<2>, kMayRaise),
    call("aten::grid_sampler_3d", grid_sampler<3>, kMayRaise),
    call("aten::im2col", im2col, kMayRaise),
    call("aten::col2im", col2im, kMayRaise),
    call("aten::_cdist_forward", cdist, kMayRaise),
    call("aten::_pdist_forward", pdist, kMayRaise),
    call("aten::frexp.Tensor", frexp, kMayRaise),
    call("aten::renorm", renorm, kMayRaise),
    call("aten::isin.Tensor_Tensor", is_in, kMayRaise),
    call("aten::tril_indices", triangle_indices<true>, kMayRaise),
    call("aten::triu_indices", triangle_indices<false>, kMayRaise),
    call("aten::_trilinear", trilinear, kMayRaise),
    call("aten::binary_cross_entropy", binary_cross_entropy, kMayRaise),
    call("aten::multi_margin_loss", multi_margin_loss, kMayRaise),
    call("aten::multilabel_margin_loss_forward", multilabel_margin_loss, kMayRaise),
    call("aten::nll_loss2d_forward", nll_loss2d, kMayRaise),
};

}  // namespace

std::span<const OpRow> library_rows() { return kLibraryRows; }

}  // namespace vesta::graph
