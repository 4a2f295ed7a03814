#include "schedule/alternatives.h"

#include "base/check.h"
#include "schedule/cuda/alternatives.h"
#include "schedule/register_tiles.h"
#include "schedule/vectors.h"

namespace vesta::schedule {

using loops::Kernel;

namespace {

constexpr size_t kMostOfKernel = 12;
constexpr int64_t kLeastLanes = 4;

std::vector<std::shared_ptr<const Kernel>> for_cpu(const Kernel& kernel, const Target& target) {
  std::vector<std::shared_ptr<const Kernel>> out;
  const std::string own = print(kernel);
  const auto add = [&](Kernel k) {
    try {
      verify(k);
    } catch (const InternalError&) {
      return;  // this kernel has no schedule of this kind
    }
    if (out.size() < kMostOfKernel && print(k) != own) out.push_back(std::make_shared<const Kernel>(std::move(k)));
  };
  if (kernel.registers.rows > 0) {
    for (const RegisterTiling& t : register_tilings(kernel, target)) {
      Kernel k = kernel;
      k.registers = t.tile;
      k.block = t.block;
      choose_packing(k);
      if (k.registers.packs_rows == kernel.registers.packs_rows) add(std::move(k));
    }
  } else if (kernel.vector >= 0 && kernel.lanes >= 2 * kLeastLanes) {
    Kernel k = kernel;
    choose_vectors(k, target.vector_bytes / 2);
    add(std::move(k));
  }
  return out;
}

}  // namespace

std::vector<std::shared_ptr<const Kernel>> alternatives(const Kernel& kernel, const Target& target) {
  return kernel.threads.block > 0 ? thread_alternatives(kernel, target) : for_cpu(kernel, target);
}

}  // namespace vesta::schedule
