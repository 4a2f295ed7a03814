#include "schedule/kernel_schedule.h"

#include <algorithm>

#include "base/check.h"
#include "loops/lower.h"
#include "loops/online.h"
#include "schedule/cpu_loops.h"
#include "schedule/cuda/threads.h"
#include "schedule/register_tiles.h"
#include "schedule/vectors.h"

namespace vesta::schedule {
namespace {

KernelSchedule for_cpu(loops::Dag& dag, const Options& options) {
  const CpuSchedule choice = choose_loops(dag, options);
  KernelSchedule out{build_stages(dag, choice), choice.items, choice.item_cost, choice.bytes, choice.us};
  if (choice.stream) stream_results(out.staged, dag);
  loops::Kernel& k = *out.staged.kernel;
  if (choice.registers.rows > 0) {
    k.registers = choice.registers;
    k.lanes = choice.vector_bytes / int64_t{sizeof(float)};
    choose_packing(k);
  } else {
    choose_vectors(k, choice.vector_bytes);
  }
  return out;
}

// Whether a kernel without rows has one loop: its other loops are sums that the first one computes.
bool is_one_loop(const loops::Kernel& k) {
  const auto loops = std::count_if(k.stages.begin(), k.stages.end(), [](const loops::Stage& s) { return s.loop; });
  return k.row_slots.empty() && loops > 1 && loops::online_sums(k).size() + 1 == static_cast<size_t>(loops);
}

KernelSchedule for_cuda(loops::Dag& dag, const Options& options) {
  dag.load_one_hot_terms();
  const CudaSchedule choice = choose_threads(dag, options);
  KernelSchedule out{build_stages(dag, choice), 0, 0, choice.bytes, choice.us};
  loops::Threads threads = choice.threads;
  if (!out.staged.kernel->row_slots.empty()) {  // a value that is read once need not be kept
    CudaSchedule once = choice;
    once.row_bytes = 0;
    if (Staged staged = build_stages(dag, once); is_one_loop(*staged.kernel)) {
      out.staged = std::move(staged);
      if (choice.once.block > 0) threads = choice.once;
    }
  } else if (choice.once.across && is_one_loop(*out.staged.kernel)) {
    threads = choice.once;
  }
  loops::Kernel& k = *out.staged.kernel;
  k.threads = threads;
  k.product = choice.product;
  if (k.row_slots.empty()) {  // without kept rows, loops need not be unrolled and may be joined
    k.threads.held = 0;
    k.threads.shared = false;
    if (k.product.rows == 0) k.online = loops::online_sums(k);
  }
  if (!k.row_slots.empty() && k.threads.held == 0 && !k.threads.shared)
    throw loops::CannotFuse("rows that no thread has room for");
  if (choice.tile_rows > 0) read_through_tiles(k, choice.tile_rows, choice.tile_columns);
  describe_buffers(out.staged, dag);
  // Rewritten over the graph's symbols.
  out.items = substitute(loops::launched_items(k), [&](Expr s) {
    const auto at = std::find(k.sizes.begin(), k.sizes.end(), s) - k.sizes.begin();
    return out.staged.sizes.at(static_cast<size_t>(at));
  });
  return out;
}

struct Row {
  DeviceType device;
  KernelSchedule (*schedule)(loops::Dag&, const Options&);
};
constexpr Row kRows[] = {{DeviceType::CPU, for_cpu}, {DeviceType::CUDA, for_cuda}};

}  // namespace

KernelSchedule schedule_kernel(loops::Dag& dag, const Options& options) {
  for (const Row& r : kRows)
    if (r.device == options.target.device) return r.schedule(dag, options);
  VESTA_CHECK(false, "no schedule of kernels for {}", to_string(Device{options.target.device}));
}

}  // namespace vesta::schedule
