// Matrix products: calls into ATen (or, by a pass, oneDNN), or kernels. Results are contiguous.
#include "graph/ops/rows.h"

namespace vesta::graph {
namespace {

void agree(Guards& g, Expr a, Expr c, const char* op) {
  VESTA_USER_CHECK(g.equal(a, c), "{}: inner sizes {} and {} differ", op, to_string(a), to_string(c));
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
  const Sizes& sizes = results[0].sizes;
  VESTA_USER_CHECK(broadcast(g, self.sizes, sizes) == sizes, "{}: the addend does not fit", op);
}

void mm(const NodeArgs& args, Guards& g, Results& results) {
  product(args.tensor(0), args.tensor(1), 2, g, "mm", results);
}
void bmm(const NodeArgs& args, Guards& g, Results& results) {
  product(args.tensor(0), args.tensor(1), 3, g, "bmm", results);
}
// The operands have equal batches: PyTorch traces other products as mm or bmm.
void matmul(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType &a = args.tensor(0), &c = args.tensor(1);
  const size_t n = a.dim();
  if (n < 3 || c.dim() != n) VESTA_UNSUPPORTED("matmul: operands of {} and {} dimensions", n, c.dim());
  for (size_t d = 0; d + 2 < n; ++d)
    if (!g.equal(a.sizes[d], c.sizes[d])) VESTA_UNSUPPORTED("matmul: batches that differ");
  product(a, c, n, g, "matmul", results);
}
void matmul_f32(const NodeArgs& args, Guards& g, Results& results) {
  matmul(args, g, results);
  VESTA_USER_CHECK(is_narrow(args.tensor(0).dtype) && !is_float8(args.tensor(0).dtype),
                   "matmul_f32 takes bfloat16 and float16");
  results[0].dtype = DType::F32;
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
// A vector, or a matrix of `n` dimensions, times a vector.
void times_vector(const TensorType& a, size_t n, const TensorType& v, Guards& g, const char* op, Results& results) {
  dims(a, n, op);
  dims(v, 1, op);
  same_type(a, v, op);
  agree(g, a.sizes.back(), v.sizes[0], op);
  results = {contiguous_like(a, {a.sizes.begin(), a.sizes.end() - 1})};
}
void mv(const NodeArgs& args, Guards& g, Results& results) {
  times_vector(args.tensor(0), 2, args.tensor(1), g, "mv", results);
}
void addmv(const NodeArgs& args, Guards& g, Results& results) {
  times_vector(args.tensor(1), 2, args.tensor(2), g, "addmv", results);
  added(args.tensor(0), g, "addmv", results);
}
void dot(const NodeArgs& args, Guards& g, Results& results) {
  times_vector(args.tensor(0), 1, args.tensor(1), g, "dot", results);
}
void addr(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& self = args.tensor(0);
  const TensorType& column = args.tensor(1);
  const TensorType& row = args.tensor(2);
  dims(column, 1, "addr");
  dims(row, 1, "addr");
  same_type(column, row, "addr");
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
    VESTA_USER_CHECK(broadcast(g, args.tensor("bias").sizes, sizes) == sizes, "linear: the bias does not fit");
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

void in_panels(const NodeArgs& args, Guards&, Results& results) {
  const TensorType& w = args.tensor(0);
  const Expr panel = args.integer("panel");
  VESTA_USER_CHECK(w.dim() >= 2, "in_panels needs a weight of at least 2 dimensions");
  Sizes sizes = w.sizes;
  sizes[0] = ceildiv(sizes[0], panel);
  if (w.dtype == DType::BF16) {
    sizes.back() = floordiv(sizes.back(), 2);
    sizes.insert(sizes.end(), {panel, 2});
  } else {
    sizes.push_back(panel);
  }
  results = {contiguous_like(w, sizes)};
}

void packed_linear(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType &x = args.tensor(0), &panels = args.tensor(1);
  const bool pairs = panels.dtype == DType::BF16;
  const size_t more = pairs ? 3 : 2;  // dimensions besides the inner ones
  VESTA_USER_CHECK(panels.dim() > more, "packed_linear needs panels of at least {} dimensions", more + 1);
  same_type(x, panels, "packed_linear");
  const size_t inner = panels.dim() - more, panel = inner + 1;
  VESTA_USER_CHECK(x.dim() >= inner, "packed_linear sums over more dimensions than x has");
  Sizes sizes(x.sizes.begin(), x.sizes.end() - static_cast<std::ptrdiff_t>(inner));
  for (size_t d = 0; d < inner; ++d) {
    const Expr each = pairs && d + 1 == inner ? 2 : 1;
    agree(g, x.sizes[sizes.size() + d], panels.sizes[1 + d] * each, "packed_linear");
  }
  const Expr all = panels.sizes.front() * panels.sizes[panel];
  sizes.push_back(args.has("columns") ? args.integer("columns") : all);
  VESTA_USER_CHECK(!g.less(all, sizes.back()), "packed_linear has more columns than its panels");
  results = {contiguous_like(x, sizes)};
}

constexpr OpRow kMatmulRows[] = {
    call("aten::mm", mm),
    call("aten::bmm", bmm),
    call("aten::matmul", matmul),
    call("vesta::matmul_f32", matmul_f32),
    call("aten::addmm aten::_addmm_activation", addmm),
    call("aten::baddbmm", baddbmm),
    call("aten::addbmm", addbmm),
    call("aten::mv", mv),
    call("aten::addmv", addmv),
    call("aten::dot aten::vdot", dot),
    call("aten::addr", addr),
    call("aten::linear", linear),
    call("vesta::in_panels", in_panels),
    call("vesta::packed_linear", packed_linear),
    call("aten::_scaled_mm aten::_scaled_mm_v2", scaled_mm, kMayRaise | kFloat8),
};

}  // namespace

std::span<const OpRow> matmul_rows() { return kMatmulRows; }

}  // namespace vesta::graph
