// Interpolation of images: the result keeps the input's memory format.
#include "base/check.h"
#include "graph/ops/broadcast.h"
#include "graph/ops/rows.h"

namespace vesta::graph {
namespace {

template <size_t N>
void upsample(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  const TensorType& x = args.tensor(0);
  const IntList& size = args.integers("output_size");
  VESTA_USER_CHECK(x.dim() == N + 2 && size.size() == N, "interpolation: wrong number of dimensions");
  VESTA_USER_CHECK(is_float(x.dtype) || x.dtype == DType::U8, "interpolation is not implemented for {}", name(x.dtype));
  Sizes sizes = {x.sizes[0], x.sizes[1]};
  sizes.insert(sizes.end(), size.begin(), size.end());
  results = {in_format(x, sizes, N == 1 ? MemoryFormat::Contiguous : suggest_memory_format(g, x))};
}

constexpr OpRow image(const char* name, ShapeRule shape) {
  return {.name = name, .family = Family::Indexed, .shape = shape};
}
constexpr OpRow call(const char* name, ShapeRule shape) { return {.name = name, .shape = shape}; }

constexpr OpRow kRows[] = {
    image("aten::upsample_nearest1d", upsample<1>),        image("aten::upsample_nearest2d", upsample<2>),
    image("aten::upsample_nearest3d", upsample<3>),        image("aten::_upsample_nearest_exact1d", upsample<1>),
    image("aten::_upsample_nearest_exact2d", upsample<2>), image("aten::upsample_linear1d", upsample<1>),
    image("aten::_upsample_nearest_exact3d", upsample<3>), image("aten::upsample_trilinear3d", upsample<3>),
    image("aten::upsample_bilinear2d", upsample<2>),       call("aten::upsample_bicubic2d", upsample<2>),
    call("aten::_upsample_bilinear2d_aa", upsample<2>),    call("aten::_upsample_bicubic2d_aa", upsample<2>),
};

}  // namespace

std::span<const OpRow> upsample_rows() { return kRows; }

}  // namespace vesta::graph
