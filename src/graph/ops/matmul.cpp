// Matrix products: calls into ATen (or, by a pass, oneDNN). Results are contiguous.
#include "graph/ops/rows.h"
#include "graph/rules/iterator_strides.h"

namespace vesta::graph {
namespace {

void agree(Guards& g, Expr a, Expr c, const char* op) {
  VESTA_USER_CHECK(a == c || g.equal(a, c), "{}: inner sizes {} and {} differ", op, to_string(a), to_string(c));
}
void same_type(const TensorType& a, const TensorType& c, const char* op) {
  // Eager refuses most products of mixed types, but not all empty ones, so eager decides.
  if (a.dtype != c.dtype) VESTA_UNSUPPORTED("{}: operands of types {} and {}", op, name(a.dtype), name(c.dtype));
}
void dims(const TensorType& a, size_t n, const char* op) {
  VESTA_USER_CHECK(a.dim() == n, "{}: an operand has {} dimensions, but {} are needed", op, a.dim(), n);
}
void product(const TensorType& a, const TensorType& c, size_t n, Guards& g, const char* op, Results& results) {
  dims(a, n, op);
  dims(c, n, op);
  same_type(a, c, op);
  agree(g, a.sizes[n - 1], c.sizes[n - 2], op);
  if (n == 3) agree(g, a.sizes[0], c.sizes[0], op);
  Sizes sizes = a.sizes;
  sizes[n - 1] = c.sizes[n - 1];
  results = {contiguous_like(a, sizes)};
}
void added(const TensorType& self, Guards& g, const char* op, Results& results) {
  VESTA_USER_CHECK(self.dtype == results[0].dtype, "{}: the operands have different types", op);
  const Sizes joined = broadcast(g, self.sizes, results[0].sizes);
  VESTA_USER_CHECK(joined.size() == results[0].dim() && joined == results[0].sizes, "{}: the addend does not fit", op);
}

void mm(const NodeArgs& args, Guards& g, Results& results) {
  product(args.tensor(0), args.tensor(1), 2, g, "mm", results);
}
void bmm(const NodeArgs& args, Guards& g, Results& results) {
  product(args.tensor(0), args.tensor(1), 3, g, "bmm", results);
}
void addmm(const NodeArgs& args, Guards& g, Results& results) {
  product(args.tensor(1), args.tensor(2), 2, g, "addmm", results);
  added(args.tensor(0), g, "addmm", results);
}
void baddbmm(const NodeArgs& args, Guards& g, Results& results) {
  product(args.tensor(1), args.tensor(2), 3, g, "baddbmm", results);
  added(args.tensor(0), g, "baddbmm", results);
}
void addbmm(const NodeArgs& args, Guards& g, Results& results) {
  product(args.tensor(1), args.tensor(2), 3, g, "addbmm", results);
  results = {contiguous_like(results[0], {results[0].sizes[1], results[0].sizes[2]})};
  added(args.tensor(0), g, "addbmm", results);
}
void mv(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& a = args.tensor(0);
  const TensorType& v = args.tensor(1);
  dims(a, 2, "mv");
  dims(v, 1, "mv");
  same_type(a, v, "mv");
  agree(g, a.sizes[1], v.sizes[0], "mv");
  results = {contiguous_like(a, {a.sizes[0]})};
}
void addmv(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& a = args.tensor(1);
  const TensorType& v = args.tensor(2);
  dims(a, 2, "addmv");
  dims(v, 1, "addmv");
  same_type(a, v, "addmv");
  agree(g, a.sizes[1], v.sizes[0], "addmv");
  results = {contiguous_like(a, {a.sizes[0]})};
  added(args.tensor(0), g, "addmv", results);
}
void dot(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& a = args.tensor(0);
  dims(a, 1, "dot");
  dims(args.tensor(1), 1, "dot");
  same_type(a, args.tensor(1), "dot");
  agree(g, a.sizes[0], args.tensor(1).sizes[0], "dot");
  results = {contiguous_like(a, {})};
}
void addr(const NodeArgs& args, Guards& g, Results& results) {
  dims(args.tensor(1), 1, "addr");
  dims(args.tensor(2), 1, "addr");
  same_type(args.tensor(1), args.tensor(2), "addr");
  const TensorType& self = args.tensor(0);
  const TensorType& column = args.tensor(1);
  const TensorType& row = args.tensor(2);
  TensorType out = contiguous_like(self, {column.sizes[0], row.sizes[0]});
  if (self.dtype != column.dtype) VESTA_UNSUPPORTED("addr: the operands have different types");
  results = {out};
  added(self, g, "addr", results);
  TensorType upright = column;
  upright.sizes.push_back(1);
  upright.strides.push_back(1);
  const TensorType* operands[] = {&self, &upright, &row};
  results[0].strides = iterator_strides(g, out.sizes, operands);
}

void linear(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const TensorType& w = args.tensor(1);
  VESTA_USER_CHECK(x.dim() >= 1 && (w.dim() == 1 || w.dim() == 2), "linear: the operands have too few dimensions");
  same_type(x, w, "linear");
  agree(g, x.sizes.back(), w.sizes.back(), "linear");
  Sizes sizes = x.sizes;
  sizes.pop_back();
  if (w.dim() == 2) sizes.push_back(w.sizes[0]);
  results = {contiguous_like(x, sizes)};
  if (args.has("bias")) {
    same_type(x, args.tensor("bias"), "linear");
    const Sizes joined = broadcast(g, args.tensor("bias").sizes, sizes);
    VESTA_USER_CHECK(joined == sizes, "linear: the bias does not fit");
  }
}

// aten::_scaled_mm and its second version: a product of float8 matrices. ATen's call checks the scales and the layouts.
void scaled_mm(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& a = args.tensor(0);
  const TensorType& c = args.tensor(1);
  dims(a, 2, "_scaled_mm");
  dims(c, 2, "_scaled_mm");
  VESTA_USER_CHECK(is_float8(a.dtype) && is_float8(c.dtype), "_scaled_mm needs float8 matrices");
  agree(g, a.sizes[1], c.sizes[0], "_scaled_mm");
  results = {contiguous_like(a, {a.sizes[0], c.sizes[1]}, args.dtype("out_dtype", a.dtype))};
}
constexpr OpRow kRows[] = {
    call("aten::mm", mm, kExpensive),
    call("aten::bmm", bmm, kExpensive),
    call("aten::addmm", addmm, kExpensive),
    call("aten::baddbmm", baddbmm, kExpensive),
    call("aten::addbmm", addbmm, kExpensive),
    call("aten::mv", mv, kExpensive),
    call("aten::addmv", addmv, kExpensive),
    call("aten::dot", dot, kExpensive),
    call("aten::vdot", dot, kExpensive),
    call("aten::addr", addr, kExpensive),
    call("aten::linear", linear, kExpensive),
    call("aten::_addmm_activation", addmm, kExpensive),
    call("aten::_scaled_mm", scaled_mm, kExpensive | kMayRaise | kFloat8),
    call("aten::_scaled_mm_v2", scaled_mm, kExpensive | kMayRaise | kFloat8),
};

}  // namespace

std::span<const OpRow> matmul_rows() { return kRows; }

}  // namespace vesta::graph
