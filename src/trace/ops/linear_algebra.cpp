// Products and solvers that leave pending conj bits on their result, and transforms whose meta functions differ.
#include <ATen/ops/dot.h>
#include <ATen/ops/vdot.h>

#include "graph/rules/broadcast.h"
#include "trace/ops/rows.h"

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

constexpr OperatorRow kRows[] = {
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

std::span<const OperatorRow> linear_algebra_rows() { return kRows; }

}  // namespace vesta::trace
