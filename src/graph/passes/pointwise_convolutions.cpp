// Writes convolutions of 1 x 1 pixels in a joint graph as matrix products of images, in eager's memory order: the
// result of an image [inner, pixels] is weight [channels, inner] times it. ATen calls oneDNN, which lays out each
// operand again in every call. Part of the pass "convolution-products", for training on a CPU.
//
// Measured (float32, a batch of 8, two and eight threads): a training step of a ResNet-50 takes 0.88 to 0.98 of the
// time that it takes without them with AVX-512. With AVX2 (two cores of an AMD EPYC 7003) it takes the same time, and a
// step of an SE-ResNet 1.1 times as long, so there the convolutions stay.
#include <algorithm>

#include "graph/joint.h"
#include "graph/passes/convolution.h"
#include "graph/passes/library.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {
namespace {

constexpr int64_t kLeastVectorBytes = 64;
// An image of the result has at least so many pixels. With fewer, the last vector of pixels wastes too many lanes, and
// the library is as fast.
constexpr int64_t kLeastPixels = 128;
constexpr int64_t kLeastInner = 16;  // pixels over which the gradient of a weight is summed, for one image

// What a convolution and its derivative have in common.
struct Operands {
  Value* x = nullptr;
  Value* w = nullptr;
  IntList stride;
  int64_t channels = 0, inner = 0, pixels = 0;  // of the result, of x, of an image of the result
};

// The operands, where a product pays. `y`: the type of the convolution's result.
std::optional<Operands> product_operands(Value* x, Value* w, const TensorType& y, const IntList& stride,
                                         const IntList& padding, int64_t groups) {
  const TensorType &xt = x->type, &wt = w->type;
  if (xt.device.type != DeviceType::CPU || xt.dtype != DType::F32 || groups != 1 || !all_are(padding, 0))
    return std::nullopt;
  if (std::ranges::any_of(stride, [](Expr e) { return !e.is_constant(); })) return std::nullopt;
  if (!is_contiguous(xt) || !is_contiguous(wt) || !is_contiguous(y)) return std::nullopt;
  for (const TensorType* t : {&xt, &wt, &y})
    for (size_t d = 1; d < 4; ++d)
      if (!t->sizes[d].is_constant()) return std::nullopt;
  if (!wt.sizes[0].is_constant() || !wt.sizes[2].is_constant(1) || !wt.sizes[3].is_constant(1)) return std::nullopt;
  const int64_t pixels = (y.sizes[2] * y.sizes[3]).constant();
  return Operands{x, w, stride, wt.sizes[0].constant(), wt.sizes[1].constant(), pixels};
}

bool has_enough_pixels(const Operands& o) { return o.pixels >= kLeastPixels; }

// Whether the gradient of the weight pays as the sum of a product for each image. These should not take more memory
// than what they are computed of. For one image there is no sum, and the library takes up to six times as long where
// the weight is large: it lays its gradient out again.
bool weight_gradient_pays(const Operands& o, Expr images) {
  return (images.is_constant(1) && o.pixels >= kLeastInner) ||
         (has_enough_pixels(o) && 4 * o.channels * o.inner <= 5 * (o.channels + o.inner) * o.pixels);
}

std::optional<Operands> operands_of(const Node& n) {
  if (const auto c = as_convolution(n)) {
    const auto o = product_operands(c->x, c->w, n.results[0]->type, c->stride, c->padding, c->groups);
    return o && has_enough_pixels(*o) ? o : std::nullopt;
  }
  if (const auto c = as_convolution_backward(n)) {
    const TensorType& y = c->tangent->type;
    const auto o = product_operands(c->x, c->w, y, c->stride, c->padding, c->groups);
    return o && (has_enough_pixels(*o) || (n.results[1] && weight_gradient_pays(*o, y.sizes[0]))) ? o : std::nullopt;
  }
  return std::nullopt;
}

bool products_pay(const PassContext& context) {
  return may_reorder_sums(context) && context.vector_bytes >= kLeastVectorBytes;
}

class Products {
 public:
  Products(Graph& graph, const PassContext& context, Joint& joint)
      : graph_(graph), rewriter_(graph, context), joint_(joint) {}

  bool run() {
    graph_.for_each_node([&](Node* n) {
      const std::optional<Operands> o = operands_of(*n);
      if (!o || !rewriter_.may()) return;
      Builder b(graph_, n);
      b.source = n->source;
      Node* const before = n->prev;
      if (is_op(n, "aten::convolution")) {
        convolution(b, n, *o);
      } else {
        derivative(b, n, *o);
      }
      const bool was_first = n == joint_.first_backward;
      graph_.erase(n);
      if (was_first) joint_.first_backward = before ? before->next : graph_.first();
    });
    return rewriter_.changed();
  }

 private:
  void convolution(Builder& b, Node* n, const Operands& o) {
    const TensorType& y = n->results[0]->type;
    Value* const w = b("aten::expand", {matrix(b, o), IntList{y.sizes[0], o.channels, o.inner}});
    Value* made = b("aten::view", {b("aten::bmm", {w, images(b, o)}), IntList(y.sizes)});
    if (Value* const bias = value_of(n->named().get("bias")))
      made = b("aten::add.Tensor", {made, b("aten::view", {bias, IntList{o.channels, 1, 1}})});
    rewriter_.substitute(n->results[0], made);
  }

  void derivative(Builder& b, Node* n, const Operands& o) {
    Value* const tangent = n->input(0);
    const Expr count = tangent->type.sizes[0];
    Value* const y = b("aten::view", {tangent, IntList{count, o.channels, o.pixels}});
    // Between the gradients of the pixels that are read are zeros, which the library stores with them.
    const bool x_pays = has_enough_pixels(o) && all_are(o.stride, 1), w_pays = weight_gradient_pays(o, count);
    const Node* const rest = call_for(b, *n, n->results[0] && !x_pays, n->results[1] && !w_pays);
    if (Value* const of_x = n->results[0]) {
      Value* made = nullptr;
      if (x_pays) {
        Value* const w = b("aten::expand", {b("aten::t", {matrix(b, o)}), IntList{count, o.inner, o.channels}});
        made = b("aten::view", {b("aten::bmm", {w, y}), IntList(o.x->type.sizes)});
      } else {
        made = rest->results[0];
      }
      rewriter_.substitute(of_x, made);
    }
    if (Value* const of_w = n->results[1]) {
      Value* made = nullptr;
      if (w_pays) {
        Value* const each = b("aten::bmm", {y, b("aten::transpose.int", {images(b, o), Expr(1), Expr(2)})});
        made = b("aten::view", {b("aten::sum.dim_IntList", {each, IntList{0}}), IntList(o.w->type.sizes)});
      } else {
        made = rest->results[1];
      }
      rewriter_.substitute(of_w, made);
    }
    if (Value* const of_bias = n->results[2])
      rewriter_.substitute(of_bias, b("aten::sum.dim_IntList", {tangent, IntList{0, 2, 3}}));
  }

  // The derivative as a call, for these gradients; nullptr: for none.
  static Node* call_for(Builder& b, const Node& n, bool of_x, bool of_w) {
    if (!of_x && !of_w) return nullptr;
    std::vector<Arg> args(n.args().begin(), n.args().end());
    args.back() = std::vector<bool>{of_x, of_w, false};
    Node* const made = b.node(n.op->name, std::move(args));
    if (!of_x) made->results[0] = nullptr;
    if (!of_w) made->results[1] = nullptr;
    made->results[2] = nullptr;
    return made;
  }

  static Value* matrix(Builder& b, const Operands& o) { return b("aten::view", {o.w, IntList{o.channels, o.inner}}); }

  // The pixels of x that the convolution reads: [image, inner, pixels]. The derivative makes its own copy of them, so
  // that the forward pass saves x, as eager does.
  static Value* images(Builder& b, const Operands& o) {
    Value* v = o.x;
    for (const size_t d : {0, 1})
      if (!o.stride[d].is_constant(1))
        v = b("aten::slice.Tensor", {v, Expr(static_cast<int64_t>(d) + 2), Expr(0), v->type.sizes[d + 2], o.stride[d]});
    if (v != o.x) v = b("aten::clone", {v, MemoryFormat::Contiguous});
    return b("aten::view", {v, IntList{v->type.sizes[0], o.inner, o.pixels}});
  }

  Graph& graph_;
  Rewriter rewriter_;
  Joint& joint_;
};

}  // namespace

bool has_pointwise_convolutions(const Graph& graph, const PassContext& context) {
  if (!products_pay(context)) return false;
  for (const Node* n = graph.first(); n; n = n->next)
    if (operands_of(*n)) return true;
  return false;
}

bool write_pointwise_convolutions(Graph& graph, const PassContext& context, Joint& joint) {
  return products_pay(context) && Products(graph, context, joint).run();
}

}  // namespace vesta::graph
