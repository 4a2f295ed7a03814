// oneDNN's fused operators, which every CPU build of PyTorch has: the tensors they accept and the activations they may
// apply.
//
// Measured on torch 2.13 with AVX-512:
//   - float32 and bfloat16 always work. float16 works only on processors with AVX512-FP16, so it is not used: kernels
//   of ours compute its products.
//   - Weights may have any strides (a transposed [in, out] weight is as fast as a plain one, from two rows on).
//   - gelu (both forms), swish, sigmoid, tanh, hardswish and leaky_relu keep NaN and infinities as eager does, and
//     their error is that of the product. relu, hardtanh and hardsigmoid turn NaN into a number, which eager does not:
//     they stay kernels of ours.
//   - An empty reduction (in = 0) fails.
//   - A call costs about 12 us more than MKL's, and the product runs at 200 GFLOP/s instead of 150. The call pays from
//     about two million multiply-adds.
#pragma once

#include "graph/passes/convolution.h"
#include "graph/passes/pass.h"

namespace vesta::graph {

inline constexpr int64_t kLibraryProductThreshold = int64_t{1} << 21;

// Whether oneDNN takes it: on the CPU, float32 or, on processors that have instructions for it, bfloat16.
bool is_library_tensor(const TensorType& t, const PassContext& context);
// Whether convolutions of it on the CPU run in channels-last: oneDNN takes it, or it is float16, which kernels of ours
// convert while they compute.
bool takes_channels_last(const TensorType& t, const PassContext& context);
std::optional<Convolution> as_channels_last_convolution(const Node& n, const PassContext& context);
std::optional<Convolution> as_library_convolution(const Node& n, const PassContext& context);
// Whether a pass for the CPU may replace a call of oneDNN by code that adds up in another order.
bool may_reorder_sums(const PassContext& context);

// oneDNN's convolutions: with an activation, and with an addition.
const Op& pointwise_convolution();
const Op& adding_convolution();

struct Activation {
  std::string attr = "none";
  std::vector<double> scalars;
  std::string algorithm;
};
// The activation that a node applies to its first argument, if oneDNN has one that gives the same results.
std::optional<Activation> library_activation(const Node& n);

// The tensor that add.Tensor(v, other) adds to v, if it has v's type and alpha is 1; otherwise nullptr.
Value* addend_of(const Node& add, const Value* v);

// The operator that puts the weight of a convolution into oneDNN's order.
const Op& library_reorder();
// An upper bound of the bytes of its result, in which oneDNN pads channels to vectors of float32. Returns nullopt if a
// size is unknown.
std::optional<int64_t> most_reordered_bytes(const TensorType& weight, int64_t groups, int64_t vector_bytes);

// Bytes of the prepacked constants that other nodes read. A run keeps them beside the weights.
int64_t prepacked_bytes(const Graph& graph);
// Options::packed_weights in bytes. If it names no bound, copies have none on a CPU, and there are none on a GPU, whose
// memory is scarce.
int64_t packed_budget(const PassContext& context);
// Whether one more prepacked constant of this many bytes fits the budget.
bool fits_packed_budget(const Graph& graph, const PassContext& context, int64_t more);
// Whether v is a Parameter or a result of a prepacked node. `parameters` is indexed by value id (parameters_of).
std::vector<bool> parameters_of(const Graph& graph);
bool is_constant_weight(const std::vector<bool>& parameters, const Value* v);
// Whether v is such a weight, or a view of one that is the same in each call.
bool is_view_of_constant(const std::vector<bool>& parameters, const Value* v);
// It as a constant: the views are added once more, as prepacked nodes.
Value* as_constant(Graph& graph, const std::vector<bool>& parameters, Value* v);
// Whether no node needs w, a computed weight, once this reader has a packed copy.
bool is_dropped_without(const Value* w, const Node* reader);
std::optional<int64_t> bytes_of(const TensorType& t);  // nullopt when symbolic

}  // namespace vesta::graph
