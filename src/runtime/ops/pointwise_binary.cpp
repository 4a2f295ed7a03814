// Arithmetic that stays an extern call, into allocated memory.
#include <ATen/ops/mul.h>

#include "runtime/ops/rows.h"

namespace vesta::runtime {
namespace {

using Stack = std::vector<c10::IValue>;

bool mul_into(const Stack& s, at::Tensor& out) {
  at::mul_out(out, s[0].toTensor(), s[1].toTensor());
  return true;
}

constexpr DirectCallRow kBinary[] = {
    {"aten::mul.Tensor", mul_into},
};

}  // namespace

std::span<const DirectCallRow> binary_direct_calls() { return kBinary; }

}  // namespace vesta::runtime
