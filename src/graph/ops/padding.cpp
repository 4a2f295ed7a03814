// Padding: by a constant, by reflection, by the edge, around the torus.
#include <algorithm>

#include "graph/ops/rows.h"

namespace vesta::graph {
namespace {

Sizes padded(Guards& g, const TensorType& x, const IntList& pad) {
  VESTA_USER_CHECK(pad.size() % 2 == 0 && pad.size() / 2 <= x.dim(), "pad has the wrong number of entries");
  Sizes sizes = x.sizes;
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    Expr& s = sizes[x.dim() - 1 - i];
    s = s + pad[2 * i] + pad[2 * i + 1];
    VESTA_USER_CHECK(!g.less(s, 0), "pad makes a negative size");
  }
  return sizes;
}

void constant(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const IntList& pad = args.integers("pad");
  const bool grows = std::any_of(pad.begin(), pad.end(), [&](Expr p) { return g.less(0, p); });
  TensorType out = x;
  out.sizes = padded(g, x, pad);
  for (size_t i = 0; i < pad.size() / 2; ++i) {  // eager first narrows by the negative widths
    Expr left = x.sizes[x.dim() - 1 - i];
    for (const Expr p : {pad[2 * i], pad[2 * i + 1]}) {
      if (!g.less(p, 0)) continue;
      left = left + p;
      VESTA_USER_CHECK(!g.less(left, 0), "pad removes more elements than the dimension has");
    }
  }
  if (grows) {
    out.strides = format_strides(out.sizes, suggest_memory_format(g, x));
  } else {
    out.strides = preserved_strides(g, out);  // a clone of the narrowed tensor
  }
  results = {out};
}

template <size_t Dims>
void edge(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const IntList& pad = args.integers("padding");
  VESTA_USER_CHECK(pad.size() == 2 * Dims && (x.dim() == Dims + 1 || x.dim() == Dims + 2),
                   "pad has the wrong number of entries");
  for (size_t d = x.dim() - Dims - 1; d < x.dim(); ++d)
    VESTA_USER_CHECK(!x.sizes[d].is_constant(0), "only the batch dimension may be empty");
  const MemoryFormat format = Dims == 1 ? MemoryFormat::Contiguous : suggest_memory_format(g, x);
  const Sizes sizes = padded(g, x, pad);
  for (size_t d = x.dim() - Dims; d < x.dim(); ++d)
    VESTA_USER_CHECK(!g.less(sizes[d], 1), "pad removes all elements of a dimension");
  results = {in_format(x, sizes, format)};
}
template <size_t Dims>
void reflection(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const IntList& pad = args.integers("padding");
  edge<Dims>(args, g, results);
  for (size_t i = 0; i < pad.size(); ++i)
    VESTA_USER_CHECK(g.less(pad[i], x.sizes[x.dim() - 1 - i / 2]), "reflection needs padding smaller than the size");
}

// Pads all dimensions after the batch and the channels.
void circular(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const IntList& pad = args.integers("pad");
  const size_t dims = pad.size() / 2;
  VESTA_USER_CHECK(pad.size() % 2 == 0 && x.dim() == dims + 2, "pad has the wrong number of entries");
  for (size_t i = 0; i < pad.size(); ++i)
    VESTA_USER_CHECK(!g.less(x.sizes[x.dim() - 1 - i / 2], pad[i]), "circular padding wraps around more than once");
  TensorType out = x;
  out.sizes = padded(g, x, pad);
  out.strides = contiguous_strides(out.sizes);
  results = {out};
}

constexpr OpRow kPaddingRows[] = {
    indexed("aten::constant_pad_nd", constant),       indexed("aten::reflection_pad1d", reflection<1>),
    indexed("aten::reflection_pad2d", reflection<2>), indexed("aten::reflection_pad3d", reflection<3>),
    indexed("aten::replication_pad1d", edge<1>),      indexed("aten::replication_pad2d", edge<2>),
    indexed("aten::replication_pad3d", edge<3>),      indexed("aten::_pad_circular", circular),
};

}  // namespace

std::span<const OpRow> padding_rows() { return kPaddingRows; }

}  // namespace vesta::graph
