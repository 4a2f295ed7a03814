// Comparisons and logic.
#include "graph/ops/rows.h"
#include "graph/rules/complex_body.h"

namespace vesta::graph {
namespace {

constexpr uint8_t kOrdered = kAnyType & ~kComplexType;

constexpr OpRow compare(const char* name, PointwiseBody f, uint8_t accepts = kAnyType) {
  return {.name = name, .family = Family::Pointwise, .promote = Promote::Compare, .body = f, .accepts = accepts};
}
constexpr OpRow logical(const char* name, PointwiseBody f) {
  return {.name = name, .family = Family::Pointwise, .promote = Promote::Logical, .body = f};
}

Scalar complex_equal(ComplexArgs x) { return (x[0].re == x[1].re) & (x[0].im == x[1].im); }
Scalar complex_differs(ComplexArgs x) { return (x[0].re != x[1].re) | (x[0].im != x[1].im); }

constexpr OpRow kRows[] = {
    with_complex(compare("aten::eq.Tensor", primitive<Prim::Eq>), complex_body<complex_equal>),
    with_complex(compare("aten::eq.Scalar", primitive<Prim::Eq>), complex_body<complex_equal>),
    with_complex(compare("aten::ne.Tensor", primitive<Prim::Ne>), complex_body<complex_differs>),
    with_complex(compare("aten::ne.Scalar", primitive<Prim::Ne>), complex_body<complex_differs>),
    compare("aten::lt.Tensor", primitive<Prim::Lt>, kOrdered),
    compare("aten::lt.Scalar", primitive<Prim::Lt>, kOrdered),
    compare("aten::le.Tensor", primitive<Prim::Le>, kOrdered),
    compare("aten::le.Scalar", primitive<Prim::Le>, kOrdered),
    compare("aten::gt.Tensor", primitive<Prim::Gt>, kOrdered),
    compare("aten::gt.Scalar", primitive<Prim::Gt>, kOrdered),
    compare("aten::ge.Tensor", primitive<Prim::Ge>, kOrdered),
    compare("aten::ge.Scalar", primitive<Prim::Ge>, kOrdered),
    logical("aten::logical_and", primitive<Prim::And>),
    logical("aten::logical_or", primitive<Prim::Or>),
    logical("aten::logical_xor", primitive<Prim::Xor>),
};

}  // namespace

std::span<const OpRow> compare_rows() { return kRows; }

}  // namespace vesta::graph
