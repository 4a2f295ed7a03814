// Comparisons and logic.
#include "graph/ops/rows.h"
#include "graph/rules/complex_body.h"

namespace vesta::graph {
namespace {

constexpr OpRow compare(const char* names, PointwiseBody f, uint8_t accepts = kNotComplex) {
  return pointwise(names, Promote::Compare, f, accepts);
}
constexpr OpRow logical(const char* names, PointwiseBody f) { return pointwise(names, Promote::Logical, f); }

Scalar complex_equal(ComplexArgs x) { return (x[0].re == x[1].re) & (x[0].im == x[1].im); }
Scalar complex_differs(ComplexArgs x) { return (x[0].re != x[1].re) | (x[0].im != x[1].im); }

constexpr OpRow kCompareRows[] = {
    with_complex(compare("aten::eq.Tensor aten::eq.Scalar", primitive<Prim::Eq>, kAnyType),
                 complex_body<complex_equal>),
    with_complex(compare("aten::ne.Tensor aten::ne.Scalar", primitive<Prim::Ne>, kAnyType),
                 complex_body<complex_differs>),
    compare("aten::lt.Tensor aten::lt.Scalar", primitive<Prim::Lt>),
    compare("aten::le.Tensor aten::le.Scalar", primitive<Prim::Le>),
    compare("aten::gt.Tensor aten::gt.Scalar", primitive<Prim::Gt>),
    compare("aten::ge.Tensor aten::ge.Scalar", primitive<Prim::Ge>),
    logical("aten::logical_and", primitive<Prim::And>),
    logical("aten::logical_or", primitive<Prim::Or>),
    logical("aten::logical_xor", primitive<Prim::Xor>),
};

}  // namespace

std::span<const OpRow> compare_rows() { return kCompareRows; }

}  // namespace vesta::graph
