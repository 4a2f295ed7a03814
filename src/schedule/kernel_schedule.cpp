#include "schedule/kernel_schedule.h"

#include "base/check.h"
#include "loops/online.h"
#include "schedule/cuda/threads.h"
#include "schedule/family.h"
#include "schedule/vectors.h"

namespace vesta::schedule {
namespace {

KernelSchedule for_cpu(loops::Dag& dag, const Options& options) {
  const CpuSchedule choice = choose_loops(dag, options);
  KernelSchedule out{build_stages(dag, choice), choice.items, choice.item_cost, choice.bytes, choice.us};
  if (choice.stream) stream_results(out.staged, dag);
  choose_vectors(*out.staged.kernel, choice.vector_bytes);
  return out;
}

KernelSchedule for_cuda(loops::Dag& dag, const Options& options) {
  const CudaSchedule choice = choose_threads(dag, options);
  KernelSchedule out{build_stages(dag, choice), choice.items, 0, choice.bytes, choice.us};
  out.staged.kernel->threads = choice.threads;
  // Without rows loops need not be unrolled.
  if (loops::Kernel& k = *out.staged.kernel; k.row_slots.empty()) {
    k.threads.held = 0;
    k.threads.shared = false;
  }
  if (loops::Kernel& k = *out.staged.kernel; k.row_slots.empty()) k.online = loops::online_sums(k);
  if (choice.tile_rows > 0) turn_loads(*out.staged.kernel, choice.tile_rows, choice.tile_columns);
  align_buffers(out.staged, dag);
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
