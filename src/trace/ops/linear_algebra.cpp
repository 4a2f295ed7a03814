// Products and solvers that leave pending conj bits on their result, and transforms whose meta functions differ.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/dot.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/vdot.h>

#include <algorithm>
#include <vector>

#include "graph/rules/broadcast.h"
#include "trace/ops/rows.h"
#include "trace/ops/symbolic_sizes.h"

namespace vesta::trace {
namespace {

void conj_physical(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor();
  return self.is_complex() ? record(r, op, stack) : reply(op, stack, self);
}

// ATen computes products of conjugates by others, and leaves pending conj bits on some results. vdot is dot of the
// first operand's conjugate.
template <bool kConjugatesFirst>
void dot(Recorder& r, const Operator& op, Stack& stack) {
  at::Tensor a = argument(op, stack, 0).toTensor(), b = argument(op, stack, 1).toTensor();
  if (!a.is_conj() && !b.is_conj()) return record(r, op, stack);
  const bool first = a.is_conj() != kConjugatesFirst, second = b.is_conj();
  if (a.is_conj()) a = a.conj();
  if (b.is_conj()) b = b.conj();
  reply(op, stack,
        first && second ? at::dot(a, b).conj()
        : first         ? at::vdot(a, b)
        : second        ? at::vdot(b, a)
                        : at::dot(a, b));
}

// ATen solves X A = B as A^H X^H = B^H and leaves a pending conj bit on a complex result.
void lu_solve(Recorder& r, const Operator& op, Stack& stack) {
  const bool left = argument(op, stack, 3).toBool();
  record(r, op, stack);
  const at::Tensor result = stack.back().toTensor();
  if (left || !result.is_complex() || graph::is_empty(r.guards(), r.type_of(result).sizes)) return;
  stack.back() = r.same(r.fresh(r.emit("aten::conj_physical", {r.value_of(result)})), {.conj = true});
}

// ---- matmul of symbolic sizes
//
// ATen's composite kernel of torch 2.11 reads sizes as numbers, which makes a graph for these sizes alone. These
// functions make its choices (should_fold and _matmul_impl of ATen/native/LinearAlgebra.cpp) with symbolic sizes.

c10::SymInt product_of(c10::SymIntArrayRef sizes) {
  c10::SymInt product = 1;
  for (const c10::SymInt& size : sizes) product *= size;
  return product;
}

std::vector<c10::SymInt> joined(c10::SymIntArrayRef sizes, std::initializer_list<c10::SymInt> more) {
  std::vector<c10::SymInt> all = sizes.vec();
  all.insert(all.end(), more);
  return all;
}

// Whether the batches of the larger operand become rows of one matrix. They do where that needs no copy. They also do
// where the smaller operand requires a gradient. If they did not, its gradient would be computed for each batch and
// then summed.
bool folds(const at::Tensor& a, const at::Tensor& b) {
  const bool a_is_larger = a.dim() >= b.dim();
  const at::Tensor larger = a_is_larger ? a : b.mT(), &smaller = a_is_larger ? b : a;
  if (larger.dim() < 3 || smaller.dim() > 2) return false;
  if (smaller.requires_grad()) return true;
  if (a.dim() == 2) return false;
  if (larger.sym_numel() == 0) return true;
  const auto sizes = larger.sym_sizes(), strides = larger.sym_strides();
  for (size_t i = 0; i + 2 < sizes.size(); ++i) {
    if (strides[i] != strides[i + 1] * sizes[i + 1]) return false;
  }
  return true;
}

at::Tensor product_of_rows(const at::Tensor& a, const at::Tensor& b) {
  const bool transposed = b.dim() > a.dim();
  const at::Tensor batches = transposed ? b.mT() : a;
  const at::Tensor matrix = !transposed ? b : a.dim() == 2 ? a.t() : a;
  const auto sizes = batches.sym_sizes(), outer = sizes.slice(0, sizes.size() - 1);
  const at::Tensor rows = batches.reshape_symint({product_of(outer), sizes.back()});
  if (matrix.dim() == 1) return at::_unsafe_view_symint(rows.mv(matrix), outer);
  const at::Tensor result = at::_unsafe_view_symint(rows.mm(matrix), joined(outer, {matrix.sym_size(1)}));
  return transposed ? result.mT().contiguous() : result;
}

at::Tensor product_of_batches(const at::Tensor& a, const at::Tensor& b) {
  const auto batches_of = [](const at::Tensor& t) {
    return t.sym_sizes().slice(0, static_cast<size_t>(std::max<int64_t>(t.dim() - 2, 0)));
  };
  const bool b_is_vector = b.dim() == 1;
  const c10::SymInt rows = a.dim() > 1 ? a.sym_size(-2) : 1, inner = a.sym_size(-1);
  const c10::SymInt b_inner = b_is_vector ? b.sym_size(0) : b.sym_size(-2), columns = b_is_vector ? 1 : b.sym_size(-1);
  if (a.dim() == 3 && b.dim() == 3 && a.sym_size(0) != b.sym_size(0)) {
    if (a.sym_size(0) == 1 && a.requires_grad()) return at::matmul(a.squeeze(0), b);
    if (b.sym_size(0) == 1 && b.requires_grad()) return at::matmul(a, b.squeeze(0));
  }
  const auto batches = at::infer_size_symint(batches_of(a), batches_of(b));
  const c10::SymInt count = product_of(batches);
  const at::Tensor left = a.expand_symint(joined(batches, {rows, inner})).reshape_symint({count, rows, inner});
  const at::Tensor right =
      b_is_vector ? b.expand_symint(joined(batches, {b_inner})).reshape_symint({count, b_inner}).unsqueeze(2)
                  : b.expand_symint(joined(batches, {b_inner, columns})).reshape_symint({count, b_inner, columns});
  std::vector<c10::SymInt> sizes(batches.begin(), batches.end());
  if (a.dim() > 1) sizes.push_back(rows);
  if (!b_is_vector) sizes.push_back(columns);
  const at::Tensor result = left.bmm(right);
  return at::_unsafe_view_symint(b_is_vector ? result.squeeze(-1) : result, sizes);
}

void matmul(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor a = argument(op, stack, 0).toTensor(), b = argument(op, stack, 1).toTensor();
  const bool symbolic = any_symbolic(a.sym_sizes()) || any_symbolic(b.sym_sizes());
  const bool has_batches = std::min(a.dim(), b.dim()) > 0 && std::max(a.dim(), b.dim()) > 2;
  if (!symbolic || !has_batches) return decompose(r, op, stack);
  reply(op, stack, folds(a, b) ? product_of_rows(a, b) : product_of_batches(a, b));
}

constexpr OperatorRow kLinearAlgebraRows[] = {
    {"aten::matmul", matmul},
    {.name = "aten::conj_physical", .handler = conj_physical, .whole_with_gradients = true},
    {"aten::dot", dot<false>},
    {"aten::vdot", dot<true>},
    {"aten::linalg_lu_solve", lu_solve},
    {.name = "aten::linalg_eig", .meta_differs = true},
    {.name = "aten::_fft_c2c", .meta_differs = true},
    {.name = "aten::_fft_c2r", .meta_differs = true},
    {.name = "aten::_fft_r2c", .meta_differs = true},
};

}  // namespace

std::span<const OperatorRow> linear_algebra_rows() { return kLinearAlgebraRows; }

}  // namespace vesta::trace
