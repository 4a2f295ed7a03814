// Interpolation of symbolic sizes. ATen's composite forms (F.interpolate calls them) read sizes as numbers, which makes
// a graph for these sizes alone, and refuse a symbolic size as an argument.
#include <optional>
#include <vector>

#include "trace/ops/rows.h"
#include "trace/ops/symbolic_sizes.h"

namespace vesta::trace {
namespace {

// The size times the scale, rounded down. nullopt: this needs the size as a number.
std::optional<c10::SymInt> scaled(const c10::SymInt& size, double scale) {
  constexpr int64_t kMostParts = 1 << 10;  // so that no product with a size is rounded
  constexpr double kMostTimes = 1 << 20;
  for (int64_t parts = 1; parts <= kMostParts; parts *= 2) {
    const double times = scale * static_cast<double>(parts);
    if (times > kMostTimes) break;
    if (times != static_cast<double>(static_cast<int64_t>(times))) continue;
    const c10::SymInt product = size * static_cast<int64_t>(times);
    return parts == 1 ? product : product / parts;
  }
  return std::nullopt;
}

// The sizes of the result as at::native::upsample::compute_output_size() (ATen/native/UpSample.h) finds them. nullopt:
// that function is to find them, or to say what is wrong.
std::optional<std::vector<c10::SymInt>> result_sizes(c10::SymIntArrayRef images, const c10::IValue& given,
                                                     const std::optional<std::vector<double>>& scales) {
  if (given.isNone() != scales.has_value()) return std::nullopt;
  if (!scales) {
    std::vector<c10::SymInt> sizes = given.toSymIntVector();
    return sizes.size() == images.size() ? std::optional(std::move(sizes)) : std::nullopt;
  }
  if (scales->size() != images.size()) return std::nullopt;
  std::vector<c10::SymInt> sizes;
  for (size_t i = 0; i < images.size(); ++i) {
    const std::optional<c10::SymInt> size = (*scales)[i] > 0 ? scaled(images[i], (*scales)[i]) : std::nullopt;
    if (!size) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

void upsample(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor x = argument(op, stack, 0).toTensor();
  const c10::IValue given = argument(op, stack, 1), factors = argument(op, stack, op.arg_count - 1);
  const bool symbolic = any_symbolic(x.sym_sizes()) || (!given.isNone() && any_symbolic(given.toSymIntVector()));
  if (!symbolic || x.dim() < 3) return decompose(r, op, stack);
  const auto scales = factors.toOptional<std::vector<double>>();
  const auto sizes = result_sizes(x.sym_sizes().slice(2), given, scales);
  if (!sizes) return decompose(r, op, stack);
  // The form with a number for each dimension: input, sizes, perhaps align_corners, scales.
  const Operator* const one = find_operator(op.handle.schema().name().c_str(), "");
  Stack inner{x, *sizes};
  for (size_t i = 2; i + 1 < op.arg_count; ++i) inner.push_back(argument(op, stack, i));
  for (size_t i = 0; i < sizes->size(); ++i) inner.push_back(scales ? c10::IValue((*scales)[i]) : c10::IValue());
  one->handle.callBoxed(inner);
  reply(op, stack, inner.at(0));
}

constexpr OperatorRow kUpsamplingRows[] = {
    {"aten::upsample_nearest1d.vec", upsample},        {"aten::upsample_nearest2d.vec", upsample},
    {"aten::upsample_nearest3d.vec", upsample},        {"aten::_upsample_nearest_exact1d.vec", upsample},
    {"aten::_upsample_nearest_exact2d.vec", upsample}, {"aten::_upsample_nearest_exact3d.vec", upsample},
    {"aten::upsample_linear1d.vec", upsample},         {"aten::upsample_bilinear2d.vec", upsample},
    {"aten::upsample_trilinear3d.vec", upsample},      {"aten::upsample_bicubic2d.vec", upsample},
    {"aten::_upsample_bilinear2d_aa.vec", upsample},   {"aten::_upsample_bicubic2d_aa.vec", upsample},
};

}  // namespace

std::span<const OperatorRow> upsampling_rows() { return kUpsamplingRows; }

}  // namespace vesta::trace
