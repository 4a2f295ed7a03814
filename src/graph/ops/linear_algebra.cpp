// Factorizations, solvers and similar operators: calls into ATen with known shapes. LAPACK stores matrices by columns.
// The calls check element types: empty matrices may have any.
#include "graph/ops/rows.h"

namespace vesta::graph {
namespace {

const TensorType& matrix(const NodeArgs& args, size_t i) {
  const TensorType& x = args.tensor(i);
  VESTA_USER_CHECK(x.dim() >= 2, "linear algebra needs matrices");
  return x;
}
const TensorType& square(const NodeArgs& args, Guards& g, size_t i) {
  const TensorType& x = matrix(args, i);
  VESTA_USER_CHECK(g.equal(x.sizes[x.dim() - 1], x.sizes[x.dim() - 2]), "linear algebra needs square matrices");
  return x;
}

Sizes batch(const TensorType& x) { return {x.sizes.begin(), x.sizes.end() - 2}; }
Sizes with(Sizes batch, std::initializer_list<Expr> more) {
  batch.insert(batch.end(), more);
  return batch;
}
Expr rows_of(const TensorType& x) { return x.sizes[x.dim() - 2]; }
Expr columns_of(const TensorType& x) { return x.sizes[x.dim() - 1]; }
Expr shorter_side(const TensorType& x) { return min(rows_of(x), columns_of(x)); }

TensorType by_rows(const TensorType& like, Sizes sizes) { return contiguous_like(like, std::move(sizes)); }
TensorType by_columns(const TensorType& like, Sizes sizes) {
  if (sizes.size() < 2) return by_rows(like, std::move(sizes));
  const auto swap_last = [](std::vector<Expr>& v) { std::swap(v[v.size() - 1], v[v.size() - 2]); };
  swap_last(sizes);
  TensorType out = by_rows(like, std::move(sizes));
  swap_last(out.sizes);
  swap_last(out.strides);
  return out;
}
TensorType of(DType t, const TensorType& like, Sizes sizes) { return contiguous_like(like, std::move(sizes), t); }
TensorType reals(const TensorType& like, Sizes sizes) { return of(real_of(like.dtype), like, std::move(sizes)); }
TensorType nothing(const TensorType& like) { return by_rows(like, {0}); }
// LAPACK's integers: one status per matrix, one interchange per row.
TensorType status(const TensorType& x) { return of(DType::I32, x, batch(x)); }
TensorType interchanges(const TensorType& x) { return of(DType::I32, x, with(batch(x), {shorter_side(x)})); }

// ---- factorizations ----

void factor(const NodeArgs& args, Guards& g, Results& results) {  // cholesky_ex, inv_ex
  const TensorType& x = square(args, g, 0);
  results = {by_columns(x, x.sizes), status(x)};
}
void lu_factor(const NodeArgs& args, Guards&, Results& results) {
  const TensorType& x = matrix(args, 0);
  results = {by_columns(x, x.sizes), interchanges(x), status(x)};
}
void ldl_factor(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = square(args, g, 0);
  results = {by_columns(x, x.sizes), interchanges(x), status(x)};
}
void put_parts(const TensorType& x, bool permutation, bool data, Results& results) {
  const Expr m = rows_of(x), n = columns_of(x), k = shorter_side(x);
  results = {permutation ? by_rows(x, with(batch(x), {m, m})) : nothing(x),
             data ? by_rows(x, with(batch(x), {m, k})) : nothing(x),
             data ? by_rows(x, with(batch(x), {k, n})) : nothing(x)};
}
void lu(const NodeArgs& args, Guards&, Results& results) {
  put_parts(matrix(args, 0), args.boolean("pivot"), true, results);
}
void lu_unpack(const NodeArgs& args, Guards&, Results& results) {
  put_parts(matrix(args, 0), args.boolean("unpack_pivots"), args.boolean("unpack_data"), results);
}
void qr(const NodeArgs& args, Guards&, Results& results) {
  const TensorType& x = matrix(args, 0);
  const std::string& mode = args.string("mode");
  VESTA_USER_CHECK(mode == "reduced" || mode == "complete" || mode == "r", "qr: unknown mode");
  const Expr m = rows_of(x), n = columns_of(x), k = mode == "complete" ? m : shorter_side(x);
  results = {mode == "r" ? nothing(x) : by_columns(x, with(batch(x), {m, k})), by_columns(x, with(batch(x), {k, n}))};
}
void svd(const NodeArgs& args, Guards&, Results& results) {
  const TensorType& x = matrix(args, 0);
  const bool lapack = x.device.type == DeviceType::CPU;
  const bool full = args.boolean("full_matrices"), vectors = args.boolean("compute_uv");
  const Expr m = rows_of(x), n = columns_of(x), k = shorter_side(x);
  const Sizes right = with(batch(x), {full ? n : k, n});
  results = {vectors ? by_columns(x, with(batch(x), {m, full ? m : k})) : nothing(x), reals(x, with(batch(x), {k})),
             !vectors ? nothing(x)
             : lapack ? by_columns(x, right)
                      : by_rows(x, right)};
}
void eigh(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = square(args, g, 0);
  results = {reals(x, with(batch(x), {columns_of(x)})),
             args.boolean("compute_v") ? by_columns(x, x.sizes) : nothing(x)};
}
void eigenvalues(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = square(args, g, 0);
  const DType t = is_complex(x.dtype) ? x.dtype : x.dtype == DType::F64 ? DType::C128 : DType::C64;
  results = {of(t, x, with(batch(x), {columns_of(x)}))};
}
void determinant(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = square(args, g, 0);
  results = {by_rows(x, batch(x)), by_columns(x, x.sizes), interchanges(x)};
}
void log_determinant(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = square(args, g, 0);
  results = {by_rows(x, batch(x)), reals(x, batch(x)), by_columns(x, x.sizes), interchanges(x)};
}

// ---- one matrix of the operand's sizes ----

void like_square(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = square(args, g, 0);
  results = {by_columns(x, x.sizes)};
}
void cholesky(const NodeArgs& args, Guards& g, Results& results) {
  like_square(args, g, results);
  if (is_empty(g, results[0].sizes)) results[0].strides = contiguous_strides(results[0].sizes);
}
void householder(const NodeArgs& args, Guards&, Results& results) {
  const TensorType& x = matrix(args, 0);
  VESTA_USER_CHECK(args.tensor(1).dim() + 1 == x.dim(), "householder_product: the dimensions of tau do not fit");
  results = {by_columns(x, x.sizes)};
}

void matrix_exp(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = square(args, g, 0);
  results = {by_rows(x, x.sizes)};
  if (is_empty(g, x.sizes) || g.equal(columns_of(x), 1))
    results[0].strides = preserved_strides(g, x);  // exp of each element
}

// ---- solvers ----

// The common batch of A and B, and the last two sizes of B.
Sizes solved_sizes(Guards& g, const TensorType& a, const Sizes& b) {
  const Sizes of_b(b.begin(), b.end() - 2);
  return with(broadcast(g, batch(a), of_b), {b[b.size() - 2], b[b.size() - 1]});
}
void fits(Guards& g, const TensorType& a, const Sizes& b, bool left) {
  VESTA_USER_CHECK(g.equal(columns_of(a), b[b.size() - (left ? 2 : 1)]),
                   "the shapes of the solver's matrices do not fit");
}
TensorType solved(const TensorType& like, Sizes sizes, bool left) {
  return left ? by_columns(like, std::move(sizes)) : by_rows(like, std::move(sizes));
}
// Whether b is one right side without a dimension of its own.
bool is_vector(Guards& g, const TensorType& a, const TensorType& b) {
  if (b.dim() == 1) return true;
  if (b.dim() + 1 != a.dim()) return false;
  for (size_t d = 0; d < b.dim(); ++d) {
    if (!g.equal(a.sizes[d], b.sizes[d])) return false;
  }
  return true;
}
void solve(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& a = square(args, g, 0);
  const TensorType& b = args.tensor(1);
  const bool left = args.boolean("left"), vector = is_vector(g, a, b);
  Sizes sizes = b.sizes;
  if (vector) sizes.emplace_back(1);
  VESTA_USER_CHECK(sizes.size() >= 2 && (left || !vector), "solve: the dimensions of the right side do not fit");
  fits(g, a, sizes, left);
  sizes = solved_sizes(g, a, sizes);
  if (vector) sizes.pop_back();
  results = {solved(b, sizes, left), by_columns(a, a.sizes), interchanges(a), status(a)};
}
void solve_triangular(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& a = square(args, g, 0);
  const TensorType& b = matrix(args, 1);
  fits(g, a, b.sizes, args.boolean("left"));
  results = {by_columns(a, solved_sizes(g, a, b.sizes))};
}
void lu_solve(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& a = square(args, g, 0);
  const TensorType& b = matrix(args, 2);
  const bool left = args.boolean("left");
  fits(g, a, b.sizes, left);
  results = {solved(b, solved_sizes(g, a, b.sizes), left)};
}
void ldl_solve(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& a = square(args, g, 0);
  const TensorType& b = matrix(args, 2);
  fits(g, a, b.sizes, true);
  results = {by_columns(b, solved_sizes(g, a, b.sizes))};
}
// Both arguments are already broadcast.
void cholesky_solve(const NodeArgs& args, Guards&, Results& results) {
  const TensorType& b = matrix(args, 0);
  results = {by_columns(b, b.sizes)};
}

// ---- products ----

void cross(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& a = args.tensor(0);
  const TensorType& b = args.tensor(1);
  VESTA_USER_CHECK(a.dim() == b.dim() && a.dim() > 0, "cross: the dimensions differ");
  const auto d = static_cast<size_t>(wrap_dim(g, args.integer("dim"), a.dim()));
  VESTA_USER_CHECK(g.equal(a.sizes[d], 3) && g.equal(b.sizes[d], 3), "cross: the dimension must have size 3");
  results = {by_rows(a, broadcast(g, a.sizes, b.sizes))};
}
void trace(const NodeArgs& args, Guards&, Results& results) {
  const TensorType& x = args.tensor(0);
  VESTA_USER_CHECK(x.dim() == 2, "trace: expected a matrix");
  results = {of(is_integral(x.dtype) || x.dtype == DType::Bool ? DType::I64 : x.dtype, x, {})};
}

constexpr OpRow kLinearAlgebraRows[] = {
    call("aten::linalg_cholesky_ex aten::linalg_inv_ex", factor, kMayRaise),
    call("aten::linalg_lu_factor_ex", lu_factor, kMayRaise),
    call("aten::linalg_ldl_factor_ex", ldl_factor, kMayRaise),
    call("aten::linalg_lu", lu, kMayRaise),
    call("aten::lu_unpack", lu_unpack, kMayRaise),
    call("aten::linalg_qr", qr, kMayRaise),
    call("aten::_linalg_svd", svd, kMayRaise),
    call("aten::_linalg_eigh", eigh, kMayRaise),
    call("aten::_linalg_eigvals", eigenvalues, kMayRaise),
    call("aten::_linalg_det", determinant, kMayRaise),
    call("aten::_linalg_slogdet", log_determinant, kMayRaise),
    call("aten::cholesky", cholesky, kMayRaise),
    call("aten::cholesky_inverse", like_square, kMayRaise),
    call("aten::linalg_householder_product", householder, kMayRaise),
    call("aten::linalg_matrix_exp", matrix_exp, kMayRaise),
    call("aten::_linalg_solve_ex", solve, kMayRaise),
    call("aten::linalg_solve_triangular", solve_triangular, kMayRaise),
    call("aten::linalg_lu_solve", lu_solve, kMayRaise),
    call("aten::linalg_ldl_solve", ldl_solve, kMayRaise),
    call("aten::_cholesky_solve_helper", cholesky_solve, kMayRaise),
    call("aten::linalg_cross", cross, kMayRaise),
    call("aten::trace", trace, kMayRaise),
};

}  // namespace

std::span<const OpRow> linear_algebra_rows() { return kLinearAlgebraRows; }

}  // namespace vesta::graph
