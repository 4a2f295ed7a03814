#include "graph/passes/library.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "graph/passes/rewriter.h"

namespace vesta::graph {

bool may_reorder_sums(const PassContext& context) {
  return context.device == DeviceType::CPU && context.options.numerics != "eager";
}

bool is_library_tensor(const TensorType& t, const PassContext& context) {
  return t.device.type == DeviceType::CPU &&
         (t.dtype == DType::F32 || (t.dtype == DType::BF16 && context.library_bf16));
}

bool takes_channels_last(const TensorType& t, const PassContext& context) {
  constexpr int64_t kMany = 64;
  return is_library_tensor(t, context) ||
         (t.device.type == DeviceType::CPU && t.dtype == DType::F16 && context.computes_product &&
          context.computes_product(t.dtype, kMany, kMany, kMany));
}

std::optional<Convolution> as_channels_last_convolution(const Node& n, const PassContext& context) {
  std::optional<Convolution> c = as_convolution(n);
  return c && takes_channels_last(c->x->type, context) ? c : std::nullopt;
}

std::optional<Convolution> as_library_convolution(const Node& n, const PassContext& context) {
  std::optional<Convolution> c = as_convolution(n);
  return c && is_library_tensor(c->x->type, context) ? c : std::nullopt;
}

const Op& pointwise_convolution() {
  static const Op& op = declare_op(
      "mkldnn::_convolution_pointwise(Tensor X, Tensor W, Tensor? B, int[] padding, int[] stride, int[] dilation, int "
      "groups, str attr, Scalar?[] scalars, str? algorithm) -> Tensor Y");
  return op;
}
const Op& adding_convolution() {
  static const Op& op = declare_op(
      "mkldnn::_convolution_pointwise.binary(Tensor X, Tensor other, Tensor W, Tensor? B, int[] padding, int[] stride, "
      "int[] dilation, int groups, str binary_attr, Scalar? alpha, str? unary_attr, Scalar?[] unary_scalars, "
      "str? unary_algorithm) -> Tensor Y");
  return op;
}

std::optional<Activation> library_activation(const Node& n) {
  static const std::unordered_map<std::string_view, const char*> names = {
      {"aten::gelu", "gelu"}, {"aten::silu", "swish"},          {"aten::sigmoid", "sigmoid"},
      {"aten::tanh", "tanh"}, {"aten::hardswish", "hardswish"}, {"aten::leaky_relu", "leaky_relu"},
  };
  const auto it = names.find(n.op->name);
  if (it == names.end()) return std::nullopt;
  Activation a{it->second, {}, ""};
  if (n.op->schema.index_of("approximate") >= 0) a.algorithm = n.named().string("approximate");
  if (n.op->schema.index_of("negative_slope") >= 0) a.scalars = {n.named().number("negative_slope")};
  if (!a.scalars.empty() && a.scalars[0] == 0) return std::nullopt;
  return a;
}

Value* addend_of(const Node& add, const Value* v) {
  if (!is_op(&add, "aten::add.Tensor")) return nullptr;
  const Expr* alpha = std::get_if<Expr>(&add.named().get("alpha"));
  Value *a = value_of(add.args()[0]), *b = value_of(add.args()[1]);
  if (!alpha || !alpha->is_constant(1) || !a || !b || a == b) return nullptr;
  Value* other = a == v ? b : a;
  return other->type == v->type && add.results[0]->type == v->type ? other : nullptr;
}

std::optional<int64_t> bytes_of(const TensorType& t) {
  const Expr n = numel(t);
  if (!n.is_constant()) return std::nullopt;
  return n.constant() * element_size(t.dtype);
}

int64_t prepacked_bytes(const Graph& graph) {
  int64_t total = 0;
  graph.for_each_node([&](const Node* n) {
    // A view of a weight keeps no bytes of its own.
    if (!n->prepacked || n->op->family() == Family::View) return;
    for (const Value* v : n->results) {
      if (!v) continue;
      if (std::any_of(v->users.begin(), v->users.end(), [](const Node* u) { return !u->prepacked; }))
        total += bytes_of(v->type).value_or(0);
    }
  });
  return total;
}

int64_t packed_budget(const PassContext& context) {
  const int64_t budget = context.options.packed_weights;
  if (budget >= 0) return budget;
  return context.device == DeviceType::CPU ? std::numeric_limits<int64_t>::max() : 0;
}

bool fits_packed_budget(const Graph& graph, const PassContext& context, int64_t more) {
  const int64_t budget = packed_budget(context);
  return budget > 0 && prepacked_bytes(graph) + more <= budget;
}

std::vector<bool> parameters_of(const Graph& graph) {
  std::vector<bool> p(graph.value_count());
  for (const Input& i : graph.inputs) p[i.value->id] = i.kind == InputKind::Parameter;
  // A parameter that the graph writes changes with every run.
  for (const Mutation& m : graph.mutations) p[graph.inputs[m.input].value->id] = false;
  return p;
}

bool is_constant_weight(const std::vector<bool>& parameters, const Value* v) {
  if (v->producer) return v->producer->prepacked;
  return v->id < parameters.size() && parameters[v->id];
}

bool is_view_of_constant(const std::vector<bool>& parameters, const Value* v) {
  if (is_constant_weight(parameters, v)) return true;
  const Node* const n = v->producer;
  if (!n || n->op->family() != Family::View) return false;
  return std::all_of(n->args().begin(), n->args().end(), [&](const Arg& a) {
    if (const Expr* e = std::get_if<Expr>(&a)) return e->is_constant();
    if (const IntList* l = std::get_if<IntList>(&a))
      return std::all_of(l->begin(), l->end(), [](Expr e) { return e.is_constant(); });
    Value* const* from = std::get_if<Value*>(&a);
    return !from || is_view_of_constant(parameters, *from);
  });
}

Value* as_constant(Graph& graph, const std::vector<bool>& parameters, Value* v) {
  if (is_constant_weight(parameters, v)) return v;
  const Node* const n = v->producer;
  std::vector<Arg> args(n->args().begin(), n->args().end());
  for (Arg& a : args)
    if (Value** from = std::get_if<Value*>(&a)) *from = as_constant(graph, parameters, *from);
  std::vector<TensorType> types;
  for (const Value* r : n->results) types.push_back(r->type);
  Node* const made = graph.add_node(*n->op, std::move(args), std::move(types), v->producer);
  made->source = n->source;
  made->prepacked = true;
  return made->results[v->result];
}

bool is_dropped_without(const Value* w, const Node* reader) {
  return w->producer &&
         std::all_of(w->users.begin(), w->users.end(), [&](const Node* u) { return u == reader || u->prepacked; });
}

}  // namespace vesta::graph
