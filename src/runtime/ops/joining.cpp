// Concatenation into allocated memory.
#include <ATen/ops/cat.h>

#include "runtime/ops/rows.h"

namespace vesta::runtime {
namespace {

using Stack = std::vector<c10::IValue>;

bool cat_into(const Stack& s, at::Tensor& out) {
  at::cat_out(out, s[0].toTensorVector(), s[1].toInt());
  return true;
}

constexpr DirectCallRow kJoining[] = {
    {"aten::cat", cat_into},
};

}  // namespace

std::span<const DirectCallRow> joining_direct_calls() { return kJoining; }

}  // namespace vesta::runtime
