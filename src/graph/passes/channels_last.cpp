// Runs chains of convolutions in channels-last, the order that oneDNN computes in, and cuDNN on the tensor cores of a
// GPU (there for half types, and only if no convolution has groups). Values inside a chain change their strides; copies
// stand at its edges only. Graph outputs keep eager's strides. On a GPU constant weights are laid out once, within
// Options::packed_weights; kernels lay out the others in each call, where eager calls copies of ATen's.
//
// Measured on a CPU (float32, two cores): a 1x1 convolution takes 0.29 ms instead of 0.49, a depthwise 5x5 one 0.07
// instead of 0.14, a 3x3 one about the same, a bfloat16 one half. Below three convolutions the copies at the edges cost
// as much as the chain gains.
//
// In training the joint graph is rewritten, before the values are chosen that the forward half saves: these are in
// channels-last too, and gradients keep eager's strides. This pays where convolutions with groups stand between those
// of one pixel: grouped ones gain most, and batch norms lose, whose elements of a channel no longer lie together.
// Measured on a CPU (float32, two cores, a batch of 8), a step takes 0.78 of the time for a MobileNetV3, 0.94 for a
// RegNetY, 1.04 for a ConvNeXt, and the same for a ResNet-50, whose convolutions alone take 0.93. On a GPU (H200,
// bfloat16, 32 images), a step of a ResNet-50 takes 0.8 of the time.
#include <algorithm>
#include <unordered_map>

#include "graph/joint.h"
#include "graph/passes/convolution.h"
#include "graph/passes/library.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {
namespace {

constexpr int kLeastConvolutions = 3;

// Whether a convolution of this tensor runs in channels-last.
bool is_candidate(const TensorType& x, const PassContext& context) {
  if (context.device == DeviceType::CPU) return takes_channels_last(x, context);
  return (x.dtype == DType::F16 || x.dtype == DType::BF16) && x.device.type == context.device;
}
std::optional<Convolution> as_candidate(const Node& n, const PassContext& context) {
  std::optional<Convolution> c = as_convolution(n);
  return c && is_candidate(c->x->type, context) ? c : std::nullopt;
}
std::optional<ConvolutionBackward> as_derivative(const Node& n, const PassContext& context) {
  std::optional<ConvolutionBackward> c = as_convolution_backward(n);
  return c && is_candidate(c->x->type, context) ? c : std::nullopt;
}
// cuDNN may add up in another order.
bool may_run(const PassContext& context) {
  return find_op("aten::clone") && (context.device == DeviceType::CPU || context.options.numerics != "eager");
}

class Layout2d {
 public:
  // `joint`: nullptr for a graph without a backward pass. New nodes may come before its first_backward, which then
  // changes.
  Layout2d(Graph& g, const PassContext& context, const std::vector<bool>& parameters, Joint* joint = nullptr)
      : g_(g), context_(context), parameters_(parameters), joint_(joint) {}

  void run() {
    g_.for_each_node([&](Node* n) {
      if (n->prepacked) return;
      if (joint_ && n == joint_->first_backward) {  // what eager saves is saved, not a copy of it
        copies_.clear();
        restored_.clear();
      }
      if (const auto c = as_candidate(*n, context_)) {
        convolution(n, *c);
      } else if (const auto d = as_derivative(*n, context_); d && joint_) {
        derivative(n, *d);
      } else if (any_converted(*n)) {
        if (joint_ && may_follow(*n)) convert_inputs(n);
        if (follows(*n)) {
          convert_results(n);
        } else if (n->op->layout_rule() != LayoutRule::Ignores) {
          restore_inputs(n);
        }
      }
    });
    restore_outputs();
  }

 private:
  // With one row and column (or one channel) both memory orders are the same.
  static bool is_trivial(const TensorType& t) {
    return t.sizes[1].is_constant(1) || (t.sizes[2].is_constant(1) && t.sizes[3].is_constant(1));
  }
  static bool is_channels_last(const TensorType& t) { return t.strides == channels_last_strides(t.sizes); }
  bool any_converted(const Node& n) const {
    bool any = false;
    n.for_each_input([&](Value* v) { any = any || eager_.contains(v); });
    return any;
  }

  void convert_type(Value* v) {
    if (is_channels_last(v->type) || is_trivial(v->type)) return;
    eager_.emplace(v, v->type);
    v->type.strides = channels_last_strides(v->type.sizes);
  }

  void convert_results(Node* n) {
    for (Value* v : n->results)
      if (v && v->type.dim() == 4) convert_type(v);
  }

  static bool may_follow(const Node& n) {
    return n.op->layout_rule() == LayoutRule::Follows && n.results[0] && n.results[0]->type.dim() == 4;
  }
  // Whether all 4-D inputs of the result's size are in channels-last already, or are broadcast.
  static bool follows(const Node& n) {
    if (!may_follow(n)) return false;
    const bool pointwise = n.op->family() == Family::Pointwise;
    bool follows = true;
    n.for_each_input([&](Value* v) {
      const bool broadcast = v->type.dim() < 4 || (pointwise && is_trivial(v->type));
      follows = follows && (broadcast || is_channels_last(v->type));
    });
    return follows;
  }

  void convert_inputs(Node* n) {
    replace_inputs(n, [&](Value* v) { return v->type.dim() == 4 ? converted(v, n) : v; });
  }

  Value* converted(Value* x, Node* before) {
    if (is_channels_last(x->type) || is_trivial(x->type)) return x;
    Value*& copy = copies_[x];
    if (!copy) {
      TensorType t = x->type;
      t.strides = channels_last_strides(t.sizes);
      copy = g_.add_node(clone_, {x, MemoryFormat::ChannelsLast}, {t}, before)->results[0];
      if (joint_ && before == joint_->first_backward) joint_->first_backward = copy->producer;
    }
    return copy;
  }

  void convolution(Node* n, const Convolution& c) {
    Value* x = converted(c.x, n);
    g_.set_arg(n, 0, x);
    if (!is_channels_last(x->type)) return;
    convert_type(n->results[0]);
    if (context_.device != DeviceType::CPU) g_.set_arg(n, 1, laid_out(c.w, n));
  }

  // Whether the call of a derivative on a CPU takes less memory in PyTorch's default order, with copies of its
  // operands. In channels-last it copies the weight, and holds the weight's gradient in one more layout than in default
  // order. Where each group has one channel of x and several of the result, oneDNN pads both to 16, which takes less
  // time than default order if the images are large. Measured (two threads): 5.1 ms instead of 10.9 for 256 channels of
  // 4 x 4 pixels and kernels of 3 x 3, 14 instead of 60 for 512 of 2 x 2.
  bool takes_less_in_default_order(const ConvolutionBackward& c) const {
    if (context_.device != DeviceType::CPU) return false;
    const std::vector<Expr>& w = c.w->type.sizes;
    const bool narrow = c.groups > 1 && w[1].is_constant(1), widens = narrow && !w[0].is_constant(c.groups);
    if (narrow && !widens) return false;
    if (!widens && w[2].is_constant(1) && w[3].is_constant(1)) return false;  // the weight has one order
    return hint(numel(c.x->type) + numel(c.tangent->type)) <= (widens ? 4 : 2) * hint(numel(c.w->type));
  }

  void derivative(Node* n, const ConvolutionBackward& c) {
    if (takes_less_in_default_order(c)) return restore_inputs(n);
    Value* const x = converted(c.x, n);
    if (!is_channels_last(x->type)) return restore_inputs(n);
    g_.set_arg(n, 0, converted(c.tangent, n));
    g_.set_arg(n, 1, x);
    if (context_.device != DeviceType::CPU) g_.set_arg(n, 2, laid_out(c.w, n));
    convert_results(n);
  }

  // A weight in channels-last. A constant one is laid out once within the budget, and what computes it for this
  // convolution alone is dropped after that.
  Value* laid_out(Value* w, Node* before) {
    if (is_channels_last(w->type) || is_trivial(w->type)) return w;
    const bool known = copies_.contains(w);  // for another convolution; it counts already
    const bool frees = w->producer && has_one_use(g_, w);
    const std::optional<int64_t> bytes = bytes_of(w->type);
    const bool once =
        is_constant_weight(parameters_, w) && bytes && fits_packed_budget(g_, context_, frees ? 0 : *bytes);
    Value* const copy = converted(w, before);
    if (!known) copy->producer->prepacked = once;
    return copy;
  }

  // The value in eager's strides.
  Value* restored(Value* v, Node* before) {
    Value*& back = restored_[v];
    if (!back) {
      const TensorType& t = eager_.at(v);
      Node* at = v->producer->next;
      back = g_.add_node(clone_, {v, is_contiguous(t) ? Arg(MemoryFormat::Contiguous) : Arg(None{})}, {t},
                         at ? at : before)
                 ->results[0];
    }
    return back;
  }

  void restore_inputs(Node* n) {
    replace_inputs(n, [&](Value* v) { return eager_.contains(v) ? restored(v, n) : v; });
  }

  template <class F>
  void replace_inputs(Node* n, F&& other) {
    for (size_t i = 0; i < n->args().size(); ++i) {
      Arg a = n->args()[i];
      bool changed = false;
      const auto fix = [&](Value*& v) {
        Value* const to = v ? other(v) : v;
        changed |= to != v;
        v = to;
      };
      if (auto* v = std::get_if<Value*>(&a)) fix(*v);
      if (auto* list = std::get_if<ValueList>(&a))
        for (Value*& v : *list) fix(v);
      if (changed) g_.set_arg(n, i, std::move(a));
    }
  }

  void restore_outputs() {
    auto fix = [&](Value*& v) {
      if (v && eager_.contains(v)) v = restored(v, nullptr);
    };
    for (Output& o : g_.outputs) fix(o.value);
    for (Mutation& m : g_.mutations) fix(m.value);
  }

  Graph& g_;
  const PassContext& context_;
  const std::vector<bool>& parameters_;
  Joint* const joint_;
  const Op& clone_ = get_op("aten::clone");
  std::unordered_map<Value*, TensorType> eager_;  // values whose strides were changed, with eager's types
  std::unordered_map<Value*, Value*> copies_, restored_;
};

// Whether the channels of each group fill whole vectors. Then oneDNN is as fast in PyTorch's default order.
bool fills_vectors(const ConvolutionBackward& c, const PassContext& context) {
  const int64_t lanes = context.vector_bytes / element_size(DType::F32);
  const Expr in = c.w->type.sizes[1], out = c.w->type.sizes[0];
  return in.is_constant() && out.is_constant() && in.constant() % lanes == 0 && out.constant() / c.groups % lanes == 0;
}

}  // namespace

bool use_channels_last(Graph& graph, const PassContext& context) {
  if (!context.inference || !may_run(context)) return false;
  const bool on_gpu = context.device != DeviceType::CPU;
  const std::vector<bool> parameters = parameters_of(graph);
  int gaining = 0;
  bool grouped = false;
  graph.for_each_node([&](const Node* n) {
    const auto c = as_candidate(*n, context);
    gaining += c && is_constant_weight(parameters, c->w) && is_contiguous(c->x->type);
    grouped |= c && c->groups != 1;
  });
  if (gaining < kLeastConvolutions || (on_gpu && grouped)) return false;
  Rewriter rewriter(graph, context);
  if (!rewriter.may()) return false;
  Layout2d(graph, context, parameters).run();
  return true;
}

bool trains_in_channels_last(const Graph& graph, const PassContext& context) {
  if (!may_run(context)) return false;
  int grouped = 0, ungrouped = 0, pointwise = 0;
  graph.for_each_node([&](const Node* n) {
    const auto c = as_derivative(*n, context);
    if (!c || !is_contiguous(c->x->type)) return;
    const TensorType& w = c->w->type;
    const bool one_pixel = w.sizes[2].is_constant(1) && w.sizes[3].is_constant(1);
    ungrouped += c->groups == 1;
    grouped += c->groups > 1 && (context.device != DeviceType::CPU || !fills_vectors(*c, context));
    pointwise += c->groups == 1 && one_pixel && !lies_channels_last(c->x->type);
  });
  if (context.device != DeviceType::CPU) return ungrouped >= kLeastConvolutions && grouped == 0;
  return grouped >= kLeastConvolutions && pointwise >= kLeastConvolutions;
}

bool use_channels_last(Graph& graph, const PassContext& context, Joint& joint) {
  Rewriter rewriter(graph, context);
  if (!trains_in_channels_last(graph, context) || !rewriter.may()) return false;
  const std::vector<bool> parameters(graph.value_count());  // weights change from step to step
  Layout2d(graph, context, parameters, &joint).run();
  return true;
}

}  // namespace vesta::graph
