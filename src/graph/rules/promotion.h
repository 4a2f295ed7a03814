// PyTorch's type promotion (`at::result_type`): tensors with dimensions outrank 0-d tensors, which outrank numbers; a
// lower rank matters only when its category (bool < integer < float < complex) is higher.
#pragma once

#include "graph/graph.h"

namespace vesta::graph {

// torch.get_default_dtype() of the program being compiled; per thread, F32 unless the tracer sets it.
DType default_dtype();
void set_default_dtype(DType t);

class ResultType {
 public:
  ResultType& add(const TensorType& t);
  ResultType& add_number(const Arg& scalar);  // a Scalar argument: bool, Expr, double or complex
  ResultType& add(DType t, size_t dim);
  bool empty() const { return !has_[0] && !has_[1] && !has_[2]; }
  DType get() const;

 private:
  void join(int rank, DType t);
  bool has_[3] = {};
  DType type_[3] = {};  // with dimensions, 0-d, numbers
};

// The type that a number has by itself: Bool, I64, the default dtype, or its complex counterpart.
DType number_type(const Arg& scalar);
bool is_number(const Arg& scalar);

TypeCategory category(DType t);
// Throws UserError unless `accepts` covers t. The message does not name the type: eager raises its own message.
void require_category(const OpRow& row, const NodeArgs& args, DType t);
DType complex_of(DType t);

// The range of finite numbers of a real type. The smallest float is the negative of the largest.
struct FiniteRange {
  double low, high;
};
FiniteRange finite_range(DType t);

}  // namespace vesta::graph
