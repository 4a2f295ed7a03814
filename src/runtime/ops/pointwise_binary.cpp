// Arithmetic that stays an extern call, into allocated memory.
#include <ATen/ops/mul.h>

#include "runtime/ops/rows.h"

namespace vesta::runtime {
constexpr DirectCallRow kBinary[] = {
    {"aten::mul.Tensor",
     [](const Stack& s, at::Tensor& out) { return done(at::mul_out(out, s[0].toTensor(), s[1].toTensor())); }},
};

std::span<const DirectCallRow> binary_direct_calls() { return kBinary; }

}  // namespace vesta::runtime
