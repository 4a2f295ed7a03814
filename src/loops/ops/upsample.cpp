// Interpolation to another size: the nearest element, or a weighted mean of the neighbours along each dimension.
// Indices and weights are computed as in ATen, in the operand's compute type.
#include <cmath>

#include "loops/ops/rows.h"

namespace vesta::loops {

namespace {

// The scale argument for dimension k of N.
template <size_t N>
const graph::Arg& scale_argument(const Node& node, size_t k) {
  static constexpr const char* kNames[] = {"scales_d", "scales_h", "scales_w"};
  return node.named().get(N == 1 ? "scales" : kNames[3 - N + k]);
}

// Its value. nullopt: the scale is the ratio of the sizes.
template <size_t N>
std::optional<double> given_scale(const Node& node, size_t k) {
  const graph::Arg& a = scale_argument<N>(node, k);
  if (graph::is_none(a)) return std::nullopt;
  const double* f = std::get_if<double>(&a);
  double v = f ? *f : static_cast<double>(std::get<Expr>(a).constant());
  return v > 0 ? std::optional(v) : std::nullopt;
}

// The distance in the operand between neighbours in the result.
ScalarRef ratio(Lowering& l, DType t, Expr in, Expr out, std::optional<double> scale) {
  Dag& d = l.dag();
  if (scale) return d.constant(t, 1 / *scale);
  if (in.is_constant() && out.is_constant()) {
    if (t == DType::F32) {
      return d.constant(t, static_cast<float>(in.constant()) / static_cast<float>(out.constant()));
    }
    return d.constant(t, static_cast<double>(in.constant()) / static_cast<double>(out.constant()));
  }
  return d.bin(Prim::Div, d.size(t, in), d.size(t, out));
}

ScalarRef minimum(Lowering& l, ScalarRef i, Expr most) {
  return l.dag().bin(Prim::Min, i, l.dag().size(DType::I64, most));
}

// Rounds down as ATen does: in float, whatever the compute type is.
ScalarRef floor_index(Lowering& l, ScalarRef x) {
  Dag& d = l.dag();
  return d.cast(DType::I64, d.un(Prim::Floor, d.cast(DType::F32, x)));
}

// i // k if the formula gives exactly that for every i. Then the element needs no gather.
std::optional<Expr> whole_ratio(Expr i, Expr in, Expr out, std::optional<double> scale) {
  if (!in.is_constant() || !out.is_constant() || in.constant() < 1) return std::nullopt;
  const int64_t n = in.constant(), m = out.constant();
  if (m % n != 0 || m > 4096) return std::nullopt;
  const int64_t k = m / n;
  const float s = scale ? static_cast<float>(1 / *scale) : static_cast<float>(n) / static_cast<float>(m);
  for (int64_t j = 0; j < m; ++j) {
    if (std::min(static_cast<int64_t>(std::floor(static_cast<float>(j) * s)), n - 1) != j / k) return std::nullopt;
  }
  return floordiv(i, k);
}

// k if result i lies exactly half way between elements k*i + k/2 - 1 and k*i + k/2 of the operand, by the formula
// without aligned corners. These need no gather either.
std::optional<int64_t> halfway_ratio(Expr in, Expr out, std::optional<double> scale) {
  if (!in.is_constant() || !out.is_constant() || out.constant() < 1) return std::nullopt;
  const int64_t n = in.constant(), m = out.constant();
  const double ratio = scale ? 1 / *scale : static_cast<double>(n) / static_cast<double>(m);
  const auto k = static_cast<int64_t>(ratio);
  constexpr int64_t kExactHalves = 1 << 22;  // floats represent halves exactly up to here
  if (static_cast<double>(k) != ratio || k < 2 || k % 2 != 0 || k * (m - 1) + k / 2 >= std::min(n, kExactHalves))
    return std::nullopt;
  return k;
}

// Where the centre of result i lies in the operand, from the centre of the operand's element 0 on, and not before it.
ScalarRef centre(Lowering& l, DType t, ScalarRef step, Expr i) {
  Dag& d = l.dag();
  const ScalarRef half = d.constant(t, 0.5);
  const ScalarRef from = d.bin(Prim::Sub, d.bin(Prim::Mul, step, d.bin(Prim::Add, d.size(t, i), half)), half);
  return d.bin(Prim::Max, from, d.constant(t, 0));
}

template <size_t N, bool kExact>
ScalarRef nearest(Lowering& l, const Node& node, const Value* v, Index index) {
  Dag& d = l.dag();
  const Value* x = node.input(0);
  DType t = opmath(x->type.dtype);
  std::vector<Expr> at(index.begin(), index.end());
  for (size_t k = 0; k < N; ++k) {
    Expr i = index[2 + k], in = x->type.sizes[2 + k], out = v->type.sizes[2 + k];
    std::optional<double> scale = given_scale<N>(node, k);
    if (!kExact) {
      if (auto e = whole_ratio(i, in, out, scale)) {
        at[2 + k] = *e;
        continue;
      }
    }
    ScalarRef step = ratio(l, t, in, out, scale);
    const ScalarRef place =
        kExact ? d.bin(Prim::Add, centre(l, t, step, i), d.constant(t, 0.5)) : d.bin(Prim::Mul, step, d.size(t, i));
    at[2 + k] = d.as_index(minimum(l, floor_index(l, place), in - 1));
  }
  return l.element(x, at);
}

template <size_t N>
bool accepts_scales(const Node& node) {
  const Value* x = node.input(0);
  if (x->type.dim() != N + 2 || !is_float(x->type.dtype)) return false;
  for (size_t k = 0; k < N; ++k) {
    const graph::Arg& a = scale_argument<N>(node, k);
    const Expr* e = std::get_if<Expr>(&a);
    if (!graph::is_none(a) && !std::holds_alternative<double>(a) && !(e && e->is_constant())) return false;
  }
  return true;
}

// One dimension of a linear interpolation: two neighbours and their weights.
struct Neighbours {
  Expr place[2];
  ScalarRef weight[2];  // weight[0] without an id: only place[0] counts
};

template <size_t N>
Neighbours neighbours(Lowering& l, const Node& node, DType t, size_t k, Expr i, Expr in, Expr out) {
  Dag& d = l.dag();
  if (provably_equal(in, out)) return {{i, i}, {}};
  const bool aligned = node.named().boolean("align_corners");
  if (const auto ratio = halfway_ratio(in, out, given_scale<N>(node, k)); ratio && !aligned) {
    const Expr low = i * *ratio + (*ratio / 2 - 1);
    const ScalarRef half = d.constant(t, 0.5);
    return {{low, low + 1}, {half, half}};
  }
  ScalarRef from;
  if (aligned) {
    if (out.is_constant(1)) return {{0, 0}, {}};
    from = d.bin(Prim::Mul, ratio(l, t, in - 1, out - 1, std::nullopt), d.size(t, i));
  } else {
    from = centre(l, t, ratio(l, t, in, out, given_scale<N>(node, k)), i);
  }
  ScalarRef low = minimum(l, floor_index(l, from), in - 1);
  ScalarRef high = minimum(l, d.bin(Prim::Add, low, d.integer(DType::I64, 1)), in - 1);
  ScalarRef w = d.bin(Prim::Sub, from, d.cast(t, low));
  w = d.bin(Prim::Min, d.bin(Prim::Max, w, d.constant(t, 0)), d.constant(t, 1));
  return {{d.as_index(low), d.as_index(high)}, {d.bin(Prim::Sub, d.constant(t, 1), w), w}};
}

template <size_t N>
ScalarRef linear(Lowering& l, const Node& node, const Value* v, Index index) {
  Dag& d = l.dag();
  const Value* x = node.input(0);
  DType t = opmath(x->type.dtype);
  std::vector<Neighbours> sides;
  sides.reserve(N);
  for (size_t k = 0; k < N; ++k) {
    sides.push_back(neighbours<N>(l, node, t, k, index[2 + k], x->type.sizes[2 + k], v->type.sizes[2 + k]));
  }
  std::vector<Expr> at(index.begin(), index.end());
  auto mean = [&](size_t k, auto& self) -> ScalarRef {
    if (k == N) return l.element(x, at);
    at[2 + k] = sides[k].place[0];
    ScalarRef a = self(k + 1, self);
    if (sides[k].weight[0].id == kNoRef) return a;
    at[2 + k] = sides[k].place[1];
    ScalarRef b = self(k + 1, self);
    return d.bin(Prim::Add, d.bin(Prim::Mul, sides[k].weight[0], a), d.bin(Prim::Mul, sides[k].weight[1], b));
  };
  return mean(0, mean);
}

constexpr LoweringRow kUpsampleRows[] = {
    {"aten::upsample_nearest1d", nearest<1, false>, accepts_scales<1>},
    {"aten::upsample_nearest2d", nearest<2, false>, accepts_scales<2>},
    {"aten::upsample_nearest3d", nearest<3, false>, accepts_scales<3>},
    {"aten::_upsample_nearest_exact1d", nearest<1, true>, accepts_scales<1>},
    {"aten::_upsample_nearest_exact2d", nearest<2, true>, accepts_scales<2>},
    {"aten::_upsample_nearest_exact3d", nearest<3, true>, accepts_scales<3>},
    {"aten::upsample_linear1d", linear<1>, accepts_scales<1>},
    {"aten::upsample_bilinear2d", linear<2>, accepts_scales<2>},
    {"aten::upsample_trilinear3d", linear<3>, accepts_scales<3>},
};

}  // namespace

std::span<const LoweringRow> upsample_lowerings() { return kUpsampleRows; }

}  // namespace vesta::loops
