// Concatenation into allocated memory.
#include <ATen/ops/cat.h>

#include "runtime/ops/rows.h"

namespace vesta::runtime {
constexpr DirectCallRow kJoining[] = {
    {"aten::cat",
     [](const Stack& s, at::Tensor& out) { return done(at::cat_out(out, s[0].toTensorVector(), s[1].toInt())); }},
};

std::span<const DirectCallRow> joining_direct_calls() { return kJoining; }

}  // namespace vesta::runtime
