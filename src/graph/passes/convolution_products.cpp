// Writes convolutions in channels-last as matrix products where a kernel of ours computes these on a CPU: each pixel of
// the result is a row. The kernel also computes what follows, and there is no call of a library, which costs some
// microseconds.
//
// A convolution of 1 x 1 pixels is an aten::linear of x, or of every second pixel of x. A larger one is a
// vesta::packed_linear that sums over the pixels of a window and their channels. Windows are views of x, or of a copy
// with zeros around it; no window is copied. A convolution of one image of one pixel, as in squeeze-and-excite blocks,
// becomes a product of one row.
//
// A depthwise convolution of small windows becomes a vesta::depthwise_convolution, which kernels compute with what
// follows it.
//
// Products of BF16 read two channels at once. An operand with an odd number of channels, as colours are, is copied as
// F32 instead, and so is one of F16 whose windows are larger than a pixel. The copy with zeros around a depthwise
// convolution's operand is F32, too: its elements are read once for each tap.
#include <algorithm>
#include <map>
#include <tuple>

#include "graph/passes/convolution.h"
#include "graph/passes/library.h"
#include "graph/passes/panels.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "graph/rules/decompose.h"

namespace vesta::graph {
namespace {

constexpr int64_t kLeastRun = 8;   // neighbouring elements of a window's row
constexpr int64_t kMostTaps = 25;  // of a depthwise convolution: each one is code
constexpr int64_t kLeastChannels = 8;
constexpr int64_t kLeastVector = 8;  // elements: the shortest vector of a target
// Bytes of an operand that is copied with zeros around it, so that no tap has a condition. A copy of a larger one
// leaves the caches.
constexpr int64_t kMostPadded = int64_t{1} << 20;

bool is_one_pixel(const TensorType& x) { return (x.sizes[0] * x.sizes[2] * x.sizes[3]).is_constant(1); }

class Products {
 public:
  Products(Graph& graph, const PassContext& context) : graph_(graph), context_(context), rewriter_(graph, context) {}

  bool run() {
    graph_.for_each_node([&](Node* n) {
      const std::optional<Convolution> c = as_channels_last_convolution(*n, context_);
      if (c && !n->prepacked && !rewriter_.is_output(n->results[0])) convolution(n, *c);
    });
    return rewriter_.changed();
  }

 private:
  void convolution(Node* n, const Convolution& c) {
    const TensorType &x = c.x->type, &w = c.w->type, &y = n->results[0]->type;
    const bool constant = std::all_of(w.sizes.begin(), w.sizes.end(), [](Expr e) { return e.is_constant(); });
    if (!constant || !lies_channels_last(x)) return;
    if (c.groups > 1) return depthwise(n, c);
    const bool pointwise = is_pointwise(c);
    if (pointwise && !lies_channels_last(w)) return;  // a view of it is a matrix
    Value* made = nullptr;
    if (pointwise && is_one_pixel(x)) {
      if (!is_contiguous(y) || !rewriter_.may()) return;
      Builder b = builder(n);
      Value* const row = b("aten::view", {c.x, IntList{1, x.sizes[1]}});
      made = b("aten::view", {linear(b, n, c, row), IntList(y.sizes)});
    } else {
      const Expr pixels = y.sizes[0] * y.sizes[2] * y.sizes[3];
      if (y.strides != channels_last_strides(y.sizes) ||
          !context_.computes_product(element_of(c), hint(pixels), w.sizes[0].constant(), inner_of(w)))
        return;
      const int64_t panel = panel_of(n, c, hint(pixels));
      const int64_t run = (w.sizes[1] * (c.dilation[1].is_constant(1) ? w.sizes[3] : Expr(1))).constant();
      if (!pointwise && (panel == 0 || run < kLeastRun)) return;
      if (element_of(c) != x.dtype && (pointwise || panel == 0)) return;
      if (!rewriter_.may()) return;
      Builder b = builder(n);
      Value* const product =
          panel == 0 ? linear(b, n, c, pixels_of(b, c))
                     : b("vesta::packed_linear", {pointwise ? pixels_of(b, c) : windows_of(b, c), panels(b, c, panel),
                                                  n->named().get("bias"), columns_of(w, panel)});
      made = b("aten::permute", {cast(b, product, x.dtype), IntList{0, 3, 1, 2}});
    }
    rewriter_.substitute(n->results[0], made);
    graph_.erase(n);
  }

  void depthwise(Node* n, const Convolution& c) {
    const TensorType &x = c.x->type, &w = c.w->type, &y = n->results[0]->type;
    if (!w.sizes[0].is_constant(c.groups) || x.sizes[1] != w.sizes[0] || c.groups < kLeastChannels ||
        inner_of(w) > kMostTaps || y.strides != channels_last_strides(y.sizes) ||
        !is_constant_weight(parameters_, c.w) || bytes_of(w).value_or(0) > left_ || !rewriter_.may())
      return;
    left_ -= bytes_of(w).value_or(0);
    Builder b = builder(n);
    Node* const turned = b.node("aten::permute", {c.w, IntList{2, 3, 1, 0}});
    Node* const taps = b.node("aten::view", {turned->results[0], IntList{w.sizes[2], w.sizes[3], w.sizes[0]}});
    Node* const copy = b.node("aten::clone", {taps->results[0], MemoryFormat::Contiguous});
    for (Node* made : {turned, taps, copy}) made->prepacked = true;
    Value* from = c.x;
    IntList padding = c.padding;
    if (!all_are(padding, 0) && hint(numel(x)) * element_size(DType::F32) <= kMostPadded) {
      from = b("aten::permute", {padded(b, c, DType::F32), IntList{0, 3, 1, 2}});
      padding = {0, 0};
    }
    const Arg type = from->type.dtype == x.dtype ? Arg(None{}) : Arg(x.dtype);
    Value* const made = b("vesta::depthwise_convolution",
                          {from, constant_as(b, copy->results[0], DType::F32), n->named().get("bias"),
                           IntList{w.sizes[2], w.sizes[3]}, c.stride, padding, c.dilation},
                          {{"dtype", type}});
    rewriter_.substitute(n->results[0], made);
    graph_.erase(n);
  }

  static bool is_pointwise(const Convolution& c) {
    const TensorType& w = c.w->type;
    return w.sizes[2].is_constant(1) && w.sizes[3].is_constant(1) && all_are(c.padding, 0);
  }

  // The type of a product's operands. F16 are converted once, not for each window that reads them.
  static DType element_of(const Convolution& c) {
    const DType type = c.x->type.dtype;
    if (type == DType::F16 && !is_pointwise(c)) return DType::F32;
    return has_whole_steps(type, c.w->type.sizes[1]) ? type : DType::F32;
  }

  static Value* prepacked(Node* node) {
    node->prepacked = true;
    return node->results[0];
  }

  // A prepacked constant in another type.
  static Value* constant_as(Builder& b, Value* v, DType t) {
    return v->type.dtype == t ? v : prepacked(cast(b, v, t)->producer);
  }

  static int64_t inner_of(const TensorType& w) { return (w.sizes[1] * w.sizes[2] * w.sizes[3]).constant(); }

  // The rows of a panel in which the weight is laid out once; 0: it is not.
  int64_t panel_of(Node* n, const Convolution& c, int64_t pixels) {
    const TensorType& w = c.w->type;
    if (!context_.panel_of || !is_constant_weight(parameters_, c.w)) return 0;
    const int64_t apart = (w.sizes[1] * c.stride[1]).constant();
    const int64_t panel = context_.panel_of(element_of(c), pixels, w.sizes[0].constant(), inner_of(w), apart);
    const bool made = is_dropped_without(c.w, n) || panels_.contains({c.w, panel, is_pointwise(c)});
    const int64_t bytes = made || panel == 0 ? 0 : panel_bytes(w, panel);
    if (bytes > left_) return 0;
    left_ -= bytes;
    return panel;
  }

  Value* panels(Builder& b, const Convolution& c, int64_t panel) {
    Value*& made = panels_[{c.w, panel, is_pointwise(c)}];
    if (made) return made;
    Value* const rows = prepacked(is_pointwise(c) ? matrix(b, c) : b.node("aten::permute", {c.w, IntList{0, 2, 3, 1}}));
    return made = in_panels(b, constant_as(b, rows, element_of(c)), panel);
  }

  // The weight of a 1 x 1 convolution as a matrix, a row for each output channel.
  static Node* matrix(Builder& b, const Convolution& c) {
    return b.node("aten::view", {c.w, IntList{c.w->type.sizes[0], c.w->type.sizes[1]}});
  }

  // The pixels of x that a convolution of 1 x 1 pixels reads: [image, row, column, channel].
  static Value* pixels_of(Builder& b, const Convolution& c) {
    Value* pixels = b("aten::permute", {c.x, IntList{0, 2, 3, 1}});
    for (const size_t d : {0, 1})
      if (!c.stride[d].is_constant(1))
        pixels = b("aten::slice.Tensor",
                   {pixels, Expr(static_cast<int64_t>(d) + 1), Expr(0), pixels->type.sizes[d + 1], c.stride[d]});
    return pixels;
  }

  // x with zeros around its pixels, in this type: [image, row, column, channel].
  static Value* padded(Builder& b, const Convolution& c, DType type) {
    Value* const pixels = cast(b, b("aten::permute", {c.x, IntList{0, 2, 3, 1}}), type);
    if (all_are(c.padding, 0)) return pixels;
    const std::vector<Expr>& sizes = pixels->type.sizes;
    if (provably_less(sizes[3], kLeastVector) && is_contiguous(pixels->type)) {
      // The channels of a pixel do not fill a vector, so each row of pixels is padded as one row of elements.
      const Expr left = c.padding[1] * sizes[3];
      Value* const rows = b("aten::view", {pixels, IntList{sizes[0], sizes[1], sizes[2] * sizes[3]}});
      Value* const more = b("aten::constant_pad_nd", {rows, IntList{left, left, c.padding[0], c.padding[0]}, Expr(0)});
      return b("aten::view", {more, IntList{sizes[0], sizes[1] + Expr(2) * c.padding[0],
                                            sizes[2] + Expr(2) * c.padding[1], sizes[3]}});
    }
    return b("aten::constant_pad_nd",
             {pixels, IntList{0, 0, c.padding[1], c.padding[1], c.padding[0], c.padding[0]}, Expr(0)});
  }

  // The windows of x: [image, row, column, row of the window, column of the window, channel].
  static Value* windows_of(Builder& b, const Convolution& c) {
    Value* v = padded(b, c, element_of(c));
    for (const size_t d : {0, 1}) {
      const Expr length = (c.w->type.sizes[2 + d] - 1) * c.dilation[d] + 1;
      v = b("aten::unfold", {v, Expr(static_cast<int64_t>(d) + 1), length, c.stride[d]});
      if (!c.dilation[d].is_constant(1)) v = b("aten::slice.Tensor", {v, Expr(-1), Expr(0), length, c.dilation[d]});
    }
    return b("aten::permute", {v, IntList{0, 1, 2, 4, 5, 3}});
  }

  Value* linear(Builder& b, Node* n, const Convolution& c, Value* rows) {
    Node* const weight = matrix(b, c);
    weight->prepacked = is_constant_weight(parameters_, c.w);
    return b("aten::linear", {rows, weight->results[0], n->named().get("bias")});
  }

  Builder builder(Node* before) {
    Builder b(graph_, before);
    b.source = before->source;
    return b;
  }

  Graph& graph_;
  const PassContext& context_;
  Rewriter rewriter_;
  const std::vector<bool> parameters_ = parameters_of(graph_);
  std::map<std::tuple<Value*, int64_t, bool>, Value*> panels_;  // by weight, rows of a panel, and is_pointwise()
  int64_t left_ = panel_budget(graph_, context_);
};

}  // namespace

bool write_convolution_products(Graph& graph, const PassContext& context) {
  if (!context.inference || !context.computes_product) return false;
  return Products(graph, context).run();
}

}  // namespace vesta::graph
