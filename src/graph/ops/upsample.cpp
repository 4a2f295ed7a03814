// Interpolation of images, where the result keeps the input's memory format.
#include "graph/ops/rows.h"

namespace vesta::graph {
namespace {

template <size_t N>
void upsample(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  const TensorType& x = args.tensor(0);
  const IntList& size = args.integers("output_size");
  VESTA_USER_CHECK(x.dim() == N + 2 && size.size() == N, "interpolation: wrong number of dimensions");
  VESTA_USER_CHECK(is_float(x.dtype) || x.dtype == DType::U8, "interpolation is not implemented for {}", name(x.dtype));
  const std::span<const Expr> image(x.sizes.begin() + 2, x.sizes.end());
  VESTA_USER_CHECK(!is_empty(g, image) && !is_empty(g, size), "interpolation: input and output sizes are at least 1");
  Sizes sizes = {x.sizes[0], x.sizes[1]};
  sizes.insert(sizes.end(), size.begin(), size.end());
  results = {in_format(x, sizes, N == 1 ? MemoryFormat::Contiguous : suggest_memory_format(g, x))};
}

// The gradient has the input's sizes. Some of ATen's kernels keep the memory format of the result's gradient.
template <size_t N, bool kKeepsFormat>
void upsample_backward(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  const TensorType& grad = args.tensor(0);
  const IntList& size = args.integers("input_size");
  VESTA_USER_CHECK(grad.dim() == N + 2 && size.size() == N + 2, "interpolation: wrong number of dimensions");
  const MemoryFormat format = kKeepsFormat ? suggest_memory_format(g, grad) : MemoryFormat::Contiguous;
  results = {in_format(grad, Sizes(size.begin(), size.end()), format)};
}

// The positions of an image's elements under a transformation: [N, H, W, 2], or [N, D, H, W, 3].
void affine_grid(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  const TensorType& theta = args.tensor(0);
  const IntList& size = args.integers("size");
  VESTA_USER_CHECK((size.size() == 4 || size.size() == 5) && theta.dim() == 3, "affine_grid needs 2 or 3 dimensions");
  const auto dims = static_cast<int64_t>(size.size()) - 2;
  VESTA_USER_CHECK(
      g.equal(theta.sizes[0], size[0]) && g.equal(theta.sizes[1], dims) && g.equal(theta.sizes[2], dims + 1),
      "affine_grid: the transformation does not fit the size");
  Sizes sizes = {size[0]};
  sizes.insert(sizes.end(), size.begin() + 2, size.end());
  sizes.emplace_back(dims);
  results = {contiguous_like(theta, std::move(sizes))};
}

constexpr OpRow kUpsampleRows[] = {
    indexed("aten::upsample_nearest1d aten::_upsample_nearest_exact1d aten::upsample_linear1d", upsample<1>),
    indexed("aten::upsample_nearest2d aten::_upsample_nearest_exact2d aten::upsample_bilinear2d", upsample<2>, 0,
            LayoutRule::Follows),
    indexed("aten::upsample_nearest3d aten::_upsample_nearest_exact3d aten::upsample_trilinear3d", upsample<3>),
    call("aten::upsample_bicubic2d aten::_upsample_bilinear2d_aa aten::_upsample_bicubic2d_aa", upsample<2>),
    call("aten::upsample_nearest1d_backward aten::_upsample_nearest_exact1d_backward aten::upsample_linear1d_backward",
         upsample_backward<1, false>),
    call(
        "aten::upsample_nearest2d_backward aten::_upsample_nearest_exact2d_backward aten::upsample_bilinear2d_backward "
        "aten::_upsample_bilinear2d_aa_backward",
        upsample_backward<2, true>, 0, LayoutRule::Follows),
    call("aten::upsample_bicubic2d_backward aten::_upsample_bicubic2d_aa_backward", upsample_backward<2, false>),
    call("aten::upsample_nearest3d_backward aten::_upsample_nearest_exact3d_backward", upsample_backward<3, false>),
    call("aten::upsample_trilinear3d_backward", upsample_backward<3, true>),
    call("aten::affine_grid_generator", affine_grid),
};

}  // namespace

std::span<const OpRow> upsample_rows() { return kUpsampleRows; }

}  // namespace vesta::graph
