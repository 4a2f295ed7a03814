#include "schedule/lifetimes.h"

#include <algorithm>

#include "schedule/fusion.h"

namespace vesta::schedule {
namespace {

// Smaller buffers would cost more time than they save memory.
constexpr int64_t kLeastOfItsOwn = int64_t{1} << 10;

int64_t hint_bytes(const Buffer& b) { return hint_numel(b.type.sizes) * element_size(b.type.dtype); }

// By buffer: those with which it shares memory, because a call returned it as a view of them.
std::vector<std::vector<int>> viewed_buffers(const Plan& plan) {
  std::vector<std::vector<int>> viewed(plan.buffers.size());
  for (const auto* steps : {&plan.prepacked, &plan.steps}) {
    for (const Step& s : *steps) {
      const auto* call = std::get_if<ExternStep>(&s);
      if (!call || !call->op->schema.is_view()) continue;
      ExternStep reads{.args = call->args};
      for (const int result : call->results)
        if (result >= 0) for_each_buffer(reads, [&](int b) { viewed[static_cast<size_t>(result)].push_back(b); });
    }
  }
  return viewed;
}

void add_lifetimes(Plan& plan) {
  const auto viewed = viewed_buffers(plan);
  const auto use = [&](int b, int step, auto& self) -> void {
    Buffer& buffer = plan.buffers[static_cast<size_t>(b)];
    if (buffer.first_step < 0) buffer.first_step = step;
    buffer.last_step = std::max(buffer.last_step, step);
    for (const int v : viewed[static_cast<size_t>(b)]) self(v, step, self);
  };
  for (size_t s = 0; s < plan.steps.size(); ++s)
    for_each_buffer(plan.steps[s], [&](int b) { use(b, static_cast<int>(s), use); });
  const int end = static_cast<int>(plan.steps.size()) - 1;
  for (const BufferView& o : plan.outputs)
    if (o.buffer >= 0) use(o.buffer, std::max(0, end), use);
}

}  // namespace

void lay_out(Plan& plan) {
  add_lifetimes(plan);
  std::vector<BufferLifetime> lives;
  lives.reserve(plan.buffers.size());
  for (const Buffer& buffer : plan.buffers) {
    const bool ours =
        buffer.role == BufferRole::Arena || buffer.role == BufferRole::Output || buffer.role == BufferRole::Returned;
    const int64_t bytes = ours && buffer.first_step >= 0 ? hint_bytes(buffer) : 0;
    lives.push_back({bytes, buffer.first_step, buffer.last_step, buffer.role == BufferRole::Arena});
  }
  plan.arena = lay_out_arena(lives);
}

void allocate_step_by_step(Plan& plan) {
  for (Buffer& b : plan.buffers)
    if (b.role == BufferRole::Arena && hint_bytes(b) >= kLeastOfItsOwn) b.role = BufferRole::Returned;
  lay_out(plan);
}

}  // namespace vesta::schedule
