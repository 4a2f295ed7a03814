// Small windows, unrolled: pooling reads its window, nearest upsampling one element.
#include <cmath>

#include "base/check.h"
#include "loops/lower_rows.h"

namespace vesta::loops {

namespace {

using graph::Node;
using graph::ScalarRef;
using graph::Value;
using Index = Lowering::Index;

constexpr int64_t kLargestWindow = 25;

struct Window {
  std::vector<int64_t> kernel, stride, padding, dilation;
  bool ok = false;
};

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

Window window_of(const Node& node, size_t n) {
  Window w;
  if (!read_list(node, "kernel_size", n, 1, w.kernel) || !read_list(node, "stride", n, 0, w.stride) ||
      !read_list(node, "padding", n, 0, w.padding) || !read_list(node, "dilation", n, 1, w.dilation)) {
    return w;
  }
  int64_t count = 1;
  for (size_t k = 0; k < n; ++k) {
    if (w.stride[k] == 0) w.stride[k] = w.kernel[k];
    count *= w.kernel[k];
  }
  w.ok = count <= kLargestWindow;
  return w;
}

// Calls fn(inside, index) for each element of the window, in row-major order.
template <class F>
void each_element(Lowering& l, const Window& w, const Value* x, Index index, F&& fn) {
  size_t n = w.kernel.size(), lead = index.size() - n;
  std::vector<int64_t> at(n, 0);
  for (;;) {
    std::vector<Expr> place(index.begin(), index.end());
    ScalarRef inside;
    for (size_t k = 0; k < n; ++k) {
      Expr i = index[lead + k] * Expr(w.stride[k]) + Expr(at[k] * w.dilation[k] - w.padding[k]);
      place[lead + k] = i;
      inside = l.dag().logical_and(inside, l.at_least(i, 0));
      inside = l.dag().logical_and(inside, l.less(i, x->type.sizes[lead + k]));
    }
    if (inside.id == kNoRef) inside = l.dag().integer(DType::Bool, 1);
    fn(inside, place);
    size_t k = n;
    while (k > 0 && ++at[k - 1] == w.kernel[k - 1]) at[--k] = 0;
    if (k == 0) return;
  }
}

ScalarRef avg_pool2d(Lowering& l, const Node& node, const Value* v, Index index) {
  Dag& d = l.dag();
  const Value* x = node.input(0);
  Window w = window_of(node, 2);
  DType t = opmath(v->type.dtype);
  ScalarRef sum = d.constant(t, 0);
  each_element(l, w, x, index, [&](ScalarRef inside, const std::vector<Expr>& at) {
    if (l.is_false(inside)) return;
    Lowering::Masked masked(l, inside);
    ScalarRef e = l.element(x, at);
    sum = d.bin(Prim::Add, sum, l.is_true(inside) ? e : d.select(inside, e, d.constant(t, 0)));
  });
  graph::NodeArgs args = node.named();
  ScalarRef count;
  if (args.has("divisor_override")) {
    count = d.size(t, args.integer("divisor_override"));
  } else {
    size_t lead = index.size() - 2;
    Expr n = 1;
    for (size_t k = 0; k < 2; ++k) {
      Expr size = x->type.sizes[lead + k];
      Expr start = index[lead + k] * Expr(w.stride[k]) - Expr(w.padding[k]);
      Expr end = min(start + Expr(w.kernel[k]), size + Expr(w.padding[k]));
      n = n * (args.boolean("count_include_pad") ? end - start : min(end, size) - max(start, 0));
    }
    count = d.cast(t, d.size(DType::I64, n));
  }
  return d.bin(Prim::Div, sum, count);
}
bool accepts_avg_pool2d(const Node& node) {
  return is_float(node.results[0]->type.dtype) && window_of(node, 2).ok && !node.named().boolean("ceil_mode");
}

ScalarRef max_pool2d(Lowering& l, const Node& node, const Value* v, Index index) {
  Dag& d = l.dag();
  const Value* x = node.input(0);
  Window w = window_of(node, 2);
  DType t = opmath(x->type.dtype);
  const size_t lead = index.size() - 2;
  ScalarRef best, place;
  each_element(l, w, x, index, [&](ScalarRef inside, const std::vector<Expr>& at) {
    if (l.is_false(inside)) return;
    ScalarRef e;
    {
      Lowering::Masked masked(l, inside);
      e = l.element(x, at);
    }
    if (!l.is_true(inside)) e = d.select(inside, e, d.constant(t, -HUGE_VAL));
    Expr flat = at[lead] * x->type.sizes[lead + 1] + at[lead + 1];
    ScalarRef here = d.size(DType::I64, flat);
    if (best.id == kNoRef) {
      best = e;
      // The first element of the window inside the input, should none be greater than minus infinity.
      Expr r = max(index[lead] * Expr(w.stride[0]) - Expr(w.padding[0]), 0);
      Expr c = max(index[lead + 1] * Expr(w.stride[1]) - Expr(w.padding[1]), 0);
      place = d.size(DType::I64, r * x->type.sizes[lead + 1] + c);
      return;
    }
    if (v->result == 1) {
      ScalarRef wins = d.bin(Prim::Or, d.bin(Prim::Gt, e, best), d.un(Prim::IsNan, e));
      wins = l.is_true(inside) ? wins : d.bin(Prim::And, wins, inside);
      place = d.select(wins, here, place);
    }
    best = d.bin(Prim::Max, best, e);
  });
  return v->result == 1 ? place : best;
}
bool accepts_max_pool2d(const Node& node) {
  Window w = window_of(node, 2);
  if (!w.ok || !is_float(node.results[0]->type.dtype)) return false;
  for (size_t k = 0; k < 2; ++k) {
    if (w.dilation[k] != 1) return false;
  }
  return !node.named().boolean("ceil_mode");
}

constexpr ElementRow kRows[] = {
    {"aten::avg_pool2d", avg_pool2d, accepts_avg_pool2d, false},
    {"aten::max_pool2d", max_pool2d, accepts_max_pool2d, false},
    {"aten::max_pool2d_with_indices", max_pool2d, accepts_max_pool2d, false},
};

}  // namespace

std::span<const ElementRow> window_elements() { return kRows; }

}  // namespace vesta::loops
