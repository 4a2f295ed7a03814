#include "memory_kernel_texts.h"

#include <fmt/format.h>

#include "base/target.h"
#include "loops/kernel.h"
#include "schedule/vectors.h"

namespace vesta::codegen::testing {

std::string chain(Prim p, DType t, int n, std::string_view schedule) {
  const std::string type(name(t));
  std::string text = fmt::format(
      "kernel\nrange p0 parallel 65536\n{1}\nbuffer b0 {0} read\nbuffer b1 {0} write\nstage\n"
      "  %0 = load {0} b0[p0]\n",
      type, schedule);
  for (int i = 1; i <= n; ++i) {
    text += fmt::format("  %{} = {} {}", i, name(p), type);
    for (int k = 0; k < arity(p); ++k) text += fmt::format(" %{}", k == 0 ? i - 1 : i / 2);
    text += "\n";
  }
  return text + fmt::format("  store {} b1[p0] %{}\n", type, n);
}

std::string chain(Prim p, DType t, int n) {
  auto kernel = loops::parse_kernel(chain(p, t, n, "vector p0\nblock 1024"));
  schedule::choose_vectors(*kernel, host_target().vector_bytes);
  return loops::print(*kernel);
}

}  // namespace vesta::codegen::testing
