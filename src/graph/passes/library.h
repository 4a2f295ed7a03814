// oneDNN's fused operators, which every CPU build of PyTorch carries: what they accept, and which activations they may
// take.
//
// Measured on torch 2.13 with AVX-512:
//   - float32 and bfloat16 always work, float16 only on processors with AVX512-FP16: not used.
//   - Weights may be strided in any way (a transposed [in, out] weight is as fast as a plain one, from two rows on).
//   - gelu (both forms), swish, sigmoid, tanh, hardswish and leaky_relu keep NaN and infinities as eager does, and
//     their error is that of the product. relu, hardtanh and hardsigmoid turn NaN into a number: eager does not, so
//     they stay kernels of ours.
//   - An empty reduction (in = 0) fails.
//   - A call costs about 12 us more than MKL's, and the product runs at 200 GFLOP/s instead of 150: worth it from about
//     two million multiply-adds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/passes/convolution.h"
#include "graph/passes/pass.h"

namespace vesta::graph {

inline constexpr int64_t kLibraryProductThreshold = int64_t{1} << 21;

bool is_library_tensor(const TensorType& t);  // on the CPU, float32 or bfloat16
std::optional<Convolution> as_library_convolution(const Node& n);

struct Activation {
  std::string attr = "none";
  std::vector<double> scalars;
  std::string algorithm;
};
// The activation a node applies to its first argument, if the library's does the same.
std::optional<Activation> library_activation(const Node& n);

// The tensor that add.Tensor(v, other) adds to v, if it has v's type and alpha is 1.
Value* addend_of(const Node& add, const Value* v);

// Bytes of derived constants that other nodes read: what a run keeps beside the weights.
int64_t derived_bytes(const Graph& graph);
// Whether one more derived constant of this many bytes fits Options::packed_weights.
bool fits_packed_budget(const Graph& graph, const PassContext& context, int64_t more);
// v is a Parameter, or a result of a derived node. `is_parameter` is by value id (see parameters_of).
std::vector<bool> parameters_of(const Graph& graph);
bool is_constant_weight(const std::vector<bool>& parameters, const Value* v);
std::optional<int64_t> bytes_of(const TensorType& t);  // nullopt when symbolic

}  // namespace vesta::graph
