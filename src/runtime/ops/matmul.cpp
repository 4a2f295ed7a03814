// Products of matrices into allocated memory.
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>

#include "runtime/ops/rows.h"

namespace vesta::runtime {
namespace {

// Computes as at::linear does for these layouts (addmm or mm on rows), without its allocation.
bool linear_into(const Stack& s, at::Tensor& out) {
  const at::Tensor& x = s[0].toTensor();
  const at::Tensor& w = s[1].toTensor();
  if (w.dim() != 2 || x.dim() < 2 || !out.is_contiguous()) return false;
  if (x.dim() > 2 && !x.is_contiguous()) return false;
  const int64_t columns = w.size(0);
  const at::Tensor rows = x.dim() == 2 ? x : x.view({-1, w.size(1)});
  at::Tensor out_rows = out.dim() == 2 ? out : out.view({-1, columns});
  if (s[2].isNone()) {
    at::mm_out(out_rows, rows, w.t());
  } else {
    at::addmm_out(out_rows, s[2].toTensor(), rows, w.t());
  }
  return true;
}

constexpr DirectCallRow kMatmul[] = {
    {"aten::mm",
     [](const Stack& s, at::Tensor& out) { return done(at::mm_out(out, s[0].toTensor(), s[1].toTensor())); }},
    {"aten::bmm",
     [](const Stack& s, at::Tensor& out) { return done(at::bmm_out(out, s[0].toTensor(), s[1].toTensor())); }},
    {"aten::addmm",
     [](const Stack& s, at::Tensor& out) {
       return done(
           at::addmm_out(out, s[0].toTensor(), s[1].toTensor(), s[2].toTensor(), s[3].toScalar(), s[4].toScalar()));
     }},
    {"aten::baddbmm",
     [](const Stack& s, at::Tensor& out) {
       return done(
           at::baddbmm_out(out, s[0].toTensor(), s[1].toTensor(), s[2].toTensor(), s[3].toScalar(), s[4].toScalar()));
     }},
    {"aten::linear", linear_into},
};

}  // namespace

std::span<const DirectCallRow> matmul_direct_calls() { return kMatmul; }

}  // namespace vesta::runtime
