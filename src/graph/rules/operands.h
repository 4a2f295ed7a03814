// The operands of a pointwise node and the types they are cast to.
#pragma once

#include "graph/graph.h"

namespace vesta::graph {

struct PointwiseOperand {
  size_t arg = 0;              // position among the node's arguments: a Value, or a Scalar (bool, Expr, double)
  DType through = DType::F32;  // cast to this type first: it differs from `to` only for half types, whose Scalars and
                               // 0-d tensors ATen rounds to the promoted type before it computes in fp32
  DType to = DType::F32;       // the type the body sees
};

struct PointwiseTypes {
  std::vector<PointwiseOperand> operands;  // in schema order; one for each element of the body's `x`
  DType promoted = DType::F32;             // PyTorch's promoted type
  DType compute = DType::F32;              // opmath(promoted); for Promote::Keep that of the first tensor
  DType result = DType::F32;
};

// All given tensors are operands. For Default, Float, Compare and Logical the given Scalars named self, other,
// exponent, min and max are operands, too. The body reads every other Scalar (alpha, value, ...) itself, as a constant.
PointwiseTypes pointwise_types(const OpRow& row, const NodeArgs& args);

// Whether the row's body covers these types: not complex numbers, nor types that Vesta does not compute in. Such a node
// is an extern call.
bool has_body_for(const OpRow& row, const NodeArgs& args);

// Whether the result's type holds the numbers that a node has as parameters (a fill value, a slope, a start). Eager
// refuses some that it does not hold, with or without an error. True for operands, which decide the type.
bool holds_parameters(const Op& op, std::span<const Arg> args, DType result);

// Whether t is a 0-d tensor.
inline bool is_zero_dim(const TensorType& t) { return t.sizes.empty(); }

}  // namespace vesta::graph
