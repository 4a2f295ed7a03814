// Walks through a pointwise body for the primitives it emits. Values are only their dtypes.
#pragma once

#include "graph/rules/operands.h"

namespace vesta::graph {

class BodyWalk : public ScalarBuilder {
 public:
  ScalarRef constant(DType t, double) final { return {0, t}; }
  ScalarRef integer(DType t, int64_t) final { return {0, t}; }
  ScalarRef size(DType t, Expr) final { return {0, t}; }
  ScalarRef emit(Prim p, std::span<const ScalarRef> x) final {
    const DType t = p == Prim::Select ? x[1].dtype : x[0].dtype;
    visit(p, t);
    return {0, yields_bool(p) ? DType::Bool : t};
  }
  ScalarRef cast(DType to, ScalarRef) final { return {0, to}; }

 protected:
  // `t` is the dtype of the operands, and of the result unless that is a Bool.
  virtual void visit(Prim p, DType t) = 0;
};

}  // namespace vesta::graph
