#include "schedule/limits.h"

namespace vesta::schedule {
namespace {

constexpr Limits kLimits[] = {
    {
        .device = DeviceType::CPU,
        .cheap = 6,
        .repeated = 64,
        .hoists = true,
        .inline_cost = 160,
        .distance = 96,
        .nodes = 120,
        // Compiling takes about 0.2 ms per multiply. The passes over memory that a longer chain would save are a few
        // percent of such a kernel's time.
        .group_cost = 640,
        .products = 1,
        .instructions = 800,
        .pieces = 32,
        .stores_pieces = true,
        .shared_elements = 1 << 12,
        .few_elements = 1 << 12,
        .many_elements = 1 << 16,
        .launch_counts = false,
        .adds_atomically = false,
        .asserts_places = false,
        .split_elements = 1 << 18,
        .chunks = 64,
        .enough_chunks = 16,
        .chunk_elements = 1 << 16,
        .row_elements = 0,
        .shared_row = 0,
        .many_rows = 32,
        .apart_elements = 0,
        .whole_column = 0,
    },
    {
        .device = DeviceType::CUDA,
        .cheap = 12,  // the memory's latency hides arithmetic
        .repeated = 64,
        .hoists = false,
        .inline_cost = 160,
        .distance = 96,
        .nodes = 120,
        .group_cost = 640,
        .products = INT32_MAX,  // tiles bound them
        .instructions = 800,
        .pieces = 32,
        .stores_pieces = false,  // a launch for a border takes longer than the copy that it saves
        .shared_elements = 1 << 16,
        .few_elements = 0,  // our launch is as fast as ATen's
        .many_elements = INT64_MAX,
        .launch_counts = true,
        .adds_atomically = true,
        .asserts_places = true,  // as in ATen's CUDA kernels, the host does not wait for the result of a check
        .split_elements = 1 << 16,
        .chunks = 128,
        .enough_chunks = 16,
        .chunk_elements = 1 << 12,
        // On an H100 one block takes 6 to 7 us for a softmax or a norm of 32000 elements, kernels for chunks 10.
        .row_elements = 3 << 14,
        .shared_row = 1 << 18,
        .many_rows = 128,  // about the multiprocessors of a GPU: a row is the work of one of them
        .apart_elements = 1 << 13,
        .whole_column = 1 << 12,  // as long as a second kernel takes
    },
};

}  // namespace

const Limits& limits_of(DeviceType device) {
  for (const Limits& l : kLimits)
    if (l.device == device) return l;
  return kLimits[0];
}

}  // namespace vesta::schedule
