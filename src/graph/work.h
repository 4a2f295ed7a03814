// How much work nodes are: an estimate for passes that choose between computing a value and keeping it.
//
// Source of the figures: the costs of primitives (base/prim.h), sizes under the hints of symbols, and the speeds of the
// target (base/target.h). Estimates compare choices of one graph; they predict no time of a run.
#pragma once

#include "base/target.h"
#include "graph/graph.h"

namespace vesta::graph {

struct Work {
  // Kernels: primitives of one lane, in multiplications, of all elements. Library calls: products.
  double multiplications = 0;
  int64_t bytes = 0;           // of tensors that it reads and of results that it writes, if it is alone
  DType compute = DType::F32;  // the type in which it computes
  // A kernel can compute it together with the nodes around it. Otherwise it is a call of a library, or an update or a
  // scan, whose operands and results lie in memory.
  bool fuses = false;
};

Work work_of(const Node& node);

// Primitives of one element of a pointwise node that has a body for its types, in multiplications.
int pointwise_cost(const Node& node);

// Bytes of the memory that a tensor of this type takes, under the hints of sizes and strides.
int64_t memory_bytes(const TensorType& type);

// The whole machine: all threads of a CPU, all multiprocessors of a GPU.
struct Speeds {
  explicit Speeds(const Target& target);
  double bytes_per_ns(int64_t working_set) const;  // of memory; of the second cache level if the bytes fit into it
  double nanoseconds(const Work& work) const;      // fused: of the arithmetic alone. A library call: with its bytes

 private:
  double multiplications_per_ns(DType compute) const;
  double products_per_ns(DType compute) const;
  bool gpu_;
  double threads_, vector_bytes_, memory_, cache_;
  int64_t cache_bytes_;
};

}  // namespace vesta::graph
