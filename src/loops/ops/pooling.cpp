// Average and maximum pooling and depthwise convolutions over small windows, fixed or adaptive, as unrolled loops.
#include <cmath>

#include "loops/ops/rows.h"

namespace vesta::loops {

namespace {

constexpr int64_t kLargestWindow = 64;

// The windows of one dimension.
struct Side {
  Expr size;  // of the operand
  int64_t count = 1, stride = 1, padding = 0,
          dilation = 1;  // elements of the largest window; for fixed windows also the others
  bool adaptive = false;
  Expr results;  // adaptive: the count of windows in the dimension

  Expr start(Expr i) const { return adaptive ? floordiv(i * size, results) : i * Expr(stride) - Expr(padding); }
  // One past the last element, which may lie in the padding.
  Expr end(Expr i) const {
    return adaptive ? ceildiv((i + 1) * size, results) : min(start(i) + Expr(count), size + Expr(padding));
  }
};
using Sides = std::vector<Side>;

bool read_list(const Node& node, const char* name, size_t n, int64_t otherwise, std::vector<int64_t>& out) {
  out.assign(n, otherwise);
  int i = node.op->schema.index_of(name);
  if (i < 0) return true;
  auto* list = std::get_if<graph::IntList>(&node.args()[static_cast<size_t>(i)]);
  if (!list || list->empty()) return true;
  if (list->size() != n && list->size() != 1) return false;
  for (size_t k = 0; k < n; ++k) {
    Expr e = list->size() == 1 ? (*list)[0] : (*list)[k];
    if (!e.is_constant()) return false;
    out[k] = e.constant();
  }
  return true;
}

bool few(const Sides& sides) {
  int64_t all = 1;
  for (const Side& s : sides) all *= s.count;
  return all <= kLargestWindow;
}

// Empty if the windows over the operand are not known or too large to unroll.
Sides fixed_sides(const Node& node, size_t n, const Value* operand) {
  std::vector<int64_t> kernel, stride, padding, dilation;
  if (!read_list(node, "kernel_size", n, 1, kernel) || !read_list(node, "stride", n, 0, stride) ||
      !read_list(node, "padding", n, 0, padding) || !read_list(node, "dilation", n, 1, dilation)) {
    return {};
  }
  const std::vector<Expr>& sizes = operand->type.sizes;
  Sides sides;
  for (size_t k = 0; k < n; ++k) {
    Side s;
    s.size = sizes[sizes.size() - n + k];
    s.count = kernel[k];
    s.stride = stride[k] ? stride[k] : kernel[k];
    s.padding = padding[k];
    s.dilation = dilation[k];
    sides.push_back(s);
  }
  return few(sides) ? sides : Sides{};
}

Sides adaptive_sides(const Node& node, size_t n) {
  const std::vector<Expr>& sizes = node.input(0)->type.sizes;
  const std::vector<Expr>& results = node.results[0]->type.sizes;
  Sides sides;
  for (size_t k = 0; k < n; ++k) {
    Side s;
    s.size = sizes[sizes.size() - n + k];
    s.results = results[results.size() - n + k];
    if (!s.size.is_constant() || !s.results.is_constant() || s.results.constant() < 1) return {};
    int64_t in = s.size.constant(), out = s.results.constant();
    if (in % out == 0) {
      s.count = s.stride = in / out;
    } else {
      s.adaptive = true;
      for (int64_t i = 0; i < out; ++i) s.count = std::max(s.count, ((i + 1) * in + out - 1) / out - i * in / out);
    }
    sides.push_back(s);
  }
  return few(sides) ? sides : Sides{};
}

template <size_t N>
Sides sides_of(const Node& node) {
  if (node.input(0)->type.dim() < N + 1) return {};
  return node.op->schema.index_of("output_size") >= 0 ? adaptive_sides(node, N) : fixed_sides(node, N, node.input(0));
}

// Calls fn(inside, index) for each element of the window, in row-major order.
template <class F>
void each_element(Lowering& l, const Sides& sides, Index index, F&& fn) {
  size_t n = sides.size(), lead = index.size() - n;
  std::vector<int64_t> at(n, 0);
  for (;;) {
    std::vector<Expr> place(index.begin(), index.end());
    ScalarRef inside;
    for (size_t k = 0; k < n; ++k) {
      const Side& s = sides[k];
      Expr i = s.start(index[lead + k]) + Expr(at[k] * s.dilation);
      place[lead + k] = i;
      if (s.adaptive) {
        inside = l.dag().logical_and(inside, l.less(i, s.end(index[lead + k])));
      } else {
        inside = l.dag().logical_and(inside, l.at_least(i, 0));
        inside = l.dag().logical_and(inside, l.less(i, s.size));
      }
    }
    if (inside.id == kNoRef) inside = l.dag().integer(DType::Bool, 1);
    fn(inside, place);
    size_t k = n;
    while (k > 0 && ++at[k - 1] == sides[k - 1].count) at[--k] = 0;
    if (k == 0) return;
  }
}

template <size_t N>
ScalarRef average(Lowering& l, const Node& node, const Value* v, Index index) {
  Dag& d = l.dag();
  const Value* x = node.input(0);
  Sides sides = sides_of<N>(node);
  DType t = opmath(v->type.dtype);
  ScalarRef sum = d.constant(t, 0);
  each_element(l, sides, index, [&](ScalarRef inside, const std::vector<Expr>& at) {
    if (l.is_false(inside)) return;
    ScalarRef e = l.element_where(inside, x, at);
    sum = d.bin(Prim::Add, sum, l.is_true(inside) ? e : d.select(inside, e, d.constant(t, 0)));
  });
  const graph::Schema& schema = node.op->schema;
  graph::NodeArgs args = node.named();
  if (schema.index_of("divisor_override") >= 0 && args.has("divisor_override")) {
    return d.bin(Prim::Div, sum, d.size(t, args.integer("divisor_override")));
  }
  const bool padding_counts = schema.index_of("count_include_pad") >= 0 && args.boolean("count_include_pad");
  Expr n = 1;
  for (size_t k = 0; k < N; ++k) {
    const Side& s = sides[k];
    Expr i = index[index.size() - N + k], start = s.start(i), end = s.end(i);
    n = n * (s.adaptive || padding_counts ? end - start : min(end, s.size) - max(start, 0));
  }
  return d.bin(Prim::Div, sum, d.cast(t, d.size(DType::I64, n)));
}

// The largest element, or (second result) its position in the operand's last N dimensions: the first of the largest, or
// the last NaN.
template <size_t N>
ScalarRef maximum(Lowering& l, const Node& node, const Value* v, Index index) {
  Dag& d = l.dag();
  const Value* x = node.input(0);
  Sides sides = sides_of<N>(node);
  DType t = opmath(x->type.dtype);
  const size_t lead = index.size() - N;
  auto flat = [&](const std::vector<Expr>& at) {
    return d.size(DType::I64, linear_index(std::span(at).subspan(lead), std::span(x->type.sizes).subspan(lead)));
  };
  ScalarRef best, place;
  each_element(l, sides, index, [&](ScalarRef inside, const std::vector<Expr>& at) {
    if (l.is_false(inside)) return;
    ScalarRef e = l.element_where(inside, x, at);
    if (!l.is_true(inside)) e = d.select(inside, e, d.constant(t, -HUGE_VAL));
    if (best.id == kNoRef) {
      best = e;
      // The first element of the window that is inside the input, in case none is greater than minus infinity.
      std::vector<Expr> first = at;
      for (size_t k = 0; k < N; ++k) {
        Expr start = sides[k].start(index[lead + k]);
        first[lead + k] = sides[k].adaptive ? start : max(start, mod(start, sides[k].dilation));
      }
      place = flat(first);
      return;
    }
    if (v->result == 1) {
      ScalarRef wins = d.bin(Prim::Or, d.bin(Prim::Gt, e, best), d.un(Prim::IsNan, e));
      wins = l.is_true(inside) ? wins : d.bin(Prim::And, wins, inside);
      place = d.select(wins, flat(at), place);
    }
    best = d.bin(Prim::Max, best, e);
  });
  return v->result == 1 ? place : best;
}
template <size_t N>
bool accepts(const Node& node) {
  return is_float(node.results[0]->type.dtype) && !sides_of<N>(node).empty();
}

// The gradient of an element is the sum of the gradients of the windows that chose it, in row-major order of the
// windows.
ScalarRef maximum_backward(Lowering& l, const Node& node, const Value* v, Index index) {
  Dag& d = l.dag();
  const Value* const grad = node.input(0);
  const Value* const places = std::get<Value*>(node.named().get("indices"));
  const DType t = opmath(v->type.dtype);
  const size_t lead = index.size() - 2;
  const std::vector<Expr>&sizes = v->type.sizes, &windows = grad->type.sizes;
  const ScalarRef here = d.size(DType::I64, linear_index(index.subspan(lead), std::span(sizes).subspan(lead)));
  // In each dimension, `around` windows may contain the element. The last of them begins at or before the element.
  const Sides sides = fixed_sides(node, 2, node.input(1));
  const auto around = [](const Side& s) { return ((s.count - 1) * s.dilation + s.stride) / s.stride; };
  ScalarRef sum = d.constant(t, 0);
  for (int64_t down = around(sides[0]); down-- > 0;) {
    for (int64_t right = around(sides[1]); right-- > 0;) {
      std::vector<Expr> at(index.begin(), index.end());
      ScalarRef exists;
      for (size_t k = 0; k < 2; ++k) {
        const Side& s = sides[k];
        const Expr window = floordiv(index[lead + k] + Expr(s.padding), Expr(s.stride)) - Expr(k == 0 ? down : right);
        at[lead + k] = window;
        exists = d.logical_and(exists, l.in_range(window, 0, windows[lead + k]));
      }
      if (exists.id == kNoRef) exists = d.integer(DType::Bool, 1);
      if (l.is_false(exists)) continue;
      // If there is no such window, a gradient that this kernel computes has an arbitrary value here.
      const ScalarRef chosen = d.logical_and(exists, d.bin(Prim::Eq, l.element_where(exists, places, at), here));
      const ScalarRef term = d.cast(t, l.element_where(exists, grad, at));
      sum = d.bin(Prim::Add, sum, d.select(chosen, term, d.constant(t, 0)));
    }
  }
  return sum;
}
// On a CPU, ATen goes through the windows once, which is faster where they overlap.
bool accepts_backward(const Node& node) {
  return node.results[0]->type.device.type == DeviceType::CUDA && is_float(node.results[0]->type.dtype) &&
         !fixed_sides(node, 2, node.input(1)).empty();
}

ScalarRef depthwise_convolution(Lowering& l, const Node& node, const Value* v, Index index) {
  Dag& d = l.dag();
  const DType t = opmath(v->type.dtype);
  const Sides sides = sides_of<2>(node);
  const Expr channel = index[1];
  const auto* const bias = std::get_if<Value*>(&node.named().get("bias"));
  // Each row of the window has a sum: an addition waits for the one before it.
  ScalarRef sum, row;
  const auto end_row = [&] {
    if (row.id != kNoRef) sum = sum.id == kNoRef ? row : d.bin(Prim::Add, sum, row);
    row = {};
  };
  int64_t tap = 0;
  each_element(l, sides, index, [&](ScalarRef inside, const std::vector<Expr>& at) {
    const std::vector<Expr> place = {tap / sides[1].count, tap % sides[1].count, channel};
    if (tap++ % sides[1].count == 0) end_row();
    if (l.is_false(inside)) return;
    const Value *x = node.input(0), *taps = node.input(1);
    const ScalarRef element = d.cast(t, l.is_true(inside) ? l.element(x, at) : l.element_where(inside, x, at));
    const ScalarRef factor = d.cast(t, l.element(taps, place));
    row = row.id == kNoRef ? d.bin(Prim::Mul, element, factor) : d.emit(Prim::Fma, std::array{element, factor, row});
  });
  end_row();
  if (sum.id == kNoRef) sum = d.constant(t, 0);
  return bias ? d.bin(Prim::Add, sum, d.cast(t, l.element(*bias, std::vector<Expr>{channel}))) : sum;
}

constexpr LoweringRow kPoolingRows[] = {
    {.names = "vesta::depthwise_convolution", .element = depthwise_convolution, .accepts = accepts<2>, .windows = true},
    {"aten::avg_pool2d aten::_adaptive_avg_pool2d", average<2>, accepts<2>},
    {"aten::avg_pool3d aten::_adaptive_avg_pool3d", average<3>, accepts<3>},
    {"aten::max_pool2d_with_indices aten::adaptive_max_pool2d", maximum<2>, accepts<2>},
    {.names = "aten::max_pool2d_with_indices_backward",
     .element = maximum_backward,
     .accepts = accepts_backward,
     .windows = true,
     .unordered = true},
    {"aten::max_pool3d_with_indices aten::adaptive_max_pool3d", maximum<3>, accepts<3>},
};

}  // namespace

std::span<const LoweringRow> pooling_lowerings() { return kPoolingRows; }

}  // namespace vesta::loops
