// Copies and conversions: the elements of the operand with another layout or type.
#include "graph/ops/rows.h"
#include "graph/rules/complex_body.h"

namespace vesta::graph {
namespace {

std::vector<Expr> strides_for(Guards& g, const TensorType& x, MemoryFormat format) {
  return format == MemoryFormat::Preserve ? preserved_strides(g, x) : format_strides(x.sizes, format);
}
MemoryFormat format_of(const NodeArgs& args) {
  const auto* f = std::get_if<MemoryFormat>(&args.get("memory_format"));
  return f ? *f : MemoryFormat::Preserve;
}
Device device_of(const NodeArgs& args, Device otherwise) {
  const auto* d = std::get_if<Device>(&args.get("device"));
  return d ? *d : otherwise;
}

void clone_shape(const NodeArgs& args, Guards& g, Results& results) {
  TensorType out = args.tensor(0);
  out.strides = strides_for(g, args.tensor(0), format_of(args));
  results.assign(1, out);
}
void to_copy_shape(const NodeArgs& args, Guards& g, Results& results) {
  clone_shape(args, g, results);
  results[0].dtype = args.dtype("dtype", results[0].dtype);
  results[0].device = device_of(args, results[0].device);
  if (results[0].dtype == DType::Other) VESTA_UNSUPPORTED("a copy to a dtype that Vesta does not support");
}
// aten::copy: the type of self with the elements of src.
void copy_shape(const NodeArgs& args, Guards& g, Results& results) {
  const Sizes joined = broadcast(g, args.tensor(0).sizes, args.tensor(1).sizes);
  VESTA_USER_CHECK(joined == args.tensor(0).sizes, "copy: the source is larger than the destination");
  results.assign(1, args.tensor(0));
}

constexpr PointwiseBody kIdentity = body<[](Body x) { return x[0]; }>;

constexpr OpRow copy(const char* names, ShapeRule shape, PointwiseBody f, uint32_t flags = 0) {
  return with_shape(pointwise(names, Promote::Keep, f, kAnyType, kFloat8 | flags), shape);
}

Complex complex_identity(ComplexArgs x) { return x[0]; }
Complex complex_fill(ComplexArgs x) { return x.number("value"); }

// Converts a number to type t. To a real type it keeps the real part.
ScalarPair converted(ScalarBuilder& b, DType t, ScalarPair x) {
  const Scalar re(b, x.re);
  if (t == DType::Bool && x.complex()) return pair((re != 0) | (Scalar(b, x.im) != 0));
  if (is_complex(t)) return {x.re, x.complex() ? x.im : re.like(0).ref()};
  return {x.re, {}};
}
ScalarPair complex_to_copy(ScalarBuilder& b, const NodeArgs& args, std::span<const ScalarPair> x) {
  return converted(b, args.dtype("dtype", args.tensor(0).dtype), x[0]);
}
ScalarPair complex_copy(ScalarBuilder& b, const NodeArgs& args, std::span<const ScalarPair> x) {
  return converted(b, args.tensor(0).dtype, x[1]);
}

constexpr OpRow kCopyRows[] = {
    with_complex(copy("aten::clone", clone_shape, kIdentity), complex_body<complex_identity>),
    with_complex(copy("aten::_to_copy", to_copy_shape, kIdentity), complex_to_copy),
    with_complex(copy("aten::copy", copy_shape, body<[](Body x) { return x[1]; }>, kIgnoresFirst), complex_copy),
    with_complex(copy("aten::fill.Scalar", empty_like_first, body<[](Body x) {
                        return x.number("value", x.args().tensor(0).dtype == DType::Bool ? DType::Bool : x.dtype());
                      }>),
                 complex_body<complex_fill>),
    copy("aten::fill.Tensor", empty_like_first, body<[](Body x) { return x[1].to(x.dtype()); }>),
};

}  // namespace

std::span<const OpRow> copy_rows() { return kCopyRows; }

}  // namespace vesta::graph
