#include "runtime/bound_program.h"

#include <algorithm>

#include "artifact/packing.h"
#include "artifact/returned.h"
#include "artifact/uses.h"
#include "base/check.h"
#include "interop/find_operator.h"
#include "runtime/in_panels.h"

namespace vesta::runtime {

using artifact::Role;

BoundProgram::BoundProgram(const artifact::Artifact& a, const std::vector<artifact::Step>& steps, bool owned)
    : for_kernels_(a.buffers.size(), false), owned_(owned) {
  declare_in_panels();
  const size_t count = a.buffers.size();
  for (const auto* list : {&a.prepacked, &a.steps}) {
    for (const artifact::Step& s : *list) {
      if (const auto* l = std::get_if<artifact::Launch>(&s))
        for (int b : l->buffers) for_kernels_[b] = true;
      if (const auto* f = std::get_if<artifact::Assert>(&s)) for_kernels_[f->flag] = true;
    }
  }
  std::vector<int> last_use(count, -1);
  std::vector<bool> exists(count, false), is_output(count, false);
  for (size_t i = 0; i < steps.size(); ++i) {
    auto use = [&](int b) {
      VESTA_CHECK(b >= 0 && static_cast<size_t>(b) < count, "step {} names buffer {} of {}", i, b, count);
      last_use[b] = static_cast<int>(i);
    };
    artifact::for_each_use(steps[i], [&](int b, uint8_t, bool) { use(b); });
    if (const auto* c = std::get_if<artifact::CopyBack>(&steps[i])) {
      for (size_t b = 0; b < count; ++b) {
        if (a.buffers[b].role == Role::Input && a.buffers[b].input == c->input) use(static_cast<int>(b));
      }
    }
  }
  // Buffers that only prepacked steps read (unpacked or wider forms of weights) are released after their last use.
  const std::vector<bool> kept = owned ? artifact::read_by_runs(a) : std::vector<bool>(count, true);
  for (size_t b = 0; b < count; ++b) {
    const Role role = a.buffers[b].role;
    if (role == Role::Input || (role == Role::Prepacked && !owned)) exists[b] = true;
    if (role == Role::Arena && !owned) {
      exists[b] = true;
      standing_.arena.push_back(static_cast<int>(b));
    }
    if (role == Role::Input) standing_.inputs.emplace_back(static_cast<int>(b), a.buffers[b].input);
    if (role == Role::Prepacked && !owned) standing_.prepacked.push_back(static_cast<int>(b));
    if (owned ? role == Role::Prepacked && kept[b] : role == Role::Output) is_output[b] = true;
  }
  std::vector<bool> input_kept(a.inputs.size(), false);
  if (!owned) {
    for (const artifact::Output& o : a.outputs) {
      if (o.kind == artifact::OutputKind::Fresh && o.view.buffer >= 0) is_output[o.view.buffer] = true;
      if (o.kind == artifact::OutputKind::Input || o.kind == artifact::OutputKind::InputView)
        input_kept[o.alias] = true;
    }
  }

  steps_.resize(steps.size());
  for (const artifact::Step& s : steps) {
    const auto* c = std::get_if<artifact::CopyBack>(&s);
    if (c && c->from.buffer >= 0 && a.buffers[c->from.buffer].role == Role::Input &&
        a.buffers[c->from.buffer].input == c->input) {
      written_inputs_.push_back(c->input);
    }
  }
  first_copy_ = steps.size();
  while (first_copy_ > 0 && std::holds_alternative<artifact::CopyBack>(steps[first_copy_ - 1])) --first_copy_;
  const int device = std::max<int>(0, a.device.index);
  for (size_t i = 0; i < steps.size(); ++i) {
    BoundStep& s = steps_[i];
    s.launch = std::get_if<artifact::Launch>(&steps[i]);
    s.call = std::get_if<artifact::Extern>(&steps[i]);
    s.region = std::get_if<artifact::Call>(&steps[i]);
    s.assertion = std::get_if<artifact::Assert>(&steps[i]);
    s.copy = std::get_if<artifact::CopyBack>(&steps[i]);
    if (s.launch) {
      VESTA_CHECK(s.launch->object, "kernel {} has no code", s.launch->name);
      if (s.launch->grid.block > 0) {
        s.kernel = machine::load_on_device(*s.launch->object, device);
      } else {
        s.code = machine::load(*s.launch->object);
        s.entry = s.code->entry();
      }
      VESTA_CHECK(s.launch->buffers.size() == s.launch->offsets.size(), "kernel {}: {} buffers, {} offsets",
                  s.launch->name, s.launch->buffers.size(), s.launch->offsets.size());
      max_launch_args_ = std::max(max_launch_args_, s.launch->buffers.size());
      for (int b : s.launch->buffers) {
        if (exists[b]) continue;
        s.allocate.push_back(b);
        exists[b] = true;
      }
    } else if (s.call) {
      s.handle = find_operator(s.call->op);
      VESTA_CHECK(!s.handle->schema().is_mutable(), "{} writes its arguments", s.call->op);
      draws_ |= may_draw(*s.handle, *s.call);
      s.storage_offset = s.handle->schema().argumentIndexWithName("storage_offset").value_or(-1);
      int64_t tensors = 0;
      for (int b : s.call->results) tensors += b >= 0;
      if (tensors == 1 && s.call->results.size() == 1) {
        const int b = s.call->results[0];
        const Role role = a.buffers[b].role;
        const bool on_cpu = a.buffers[b].type.device.type == DeviceType::CPU;
        const bool passing = owned && role == Role::Prepacked && !kept[b] && on_cpu;
        // A result for the caller is allocated before its call, because a recorded graph may exist for its address.
        const bool shown = !owned && is_output[b] && !on_cpu;
        if (role == Role::Arena || role == Role::Output || passing || shown || exists[b])
          s.into = find_direct_call(s.call->op);
        if (s.into && !exists[b]) s.allocate.push_back(b);
        if (s.into && passing) passing_.push_back(b);
      }
    }
    if (s.copy)
      s.copied = std::find(written_inputs_.begin(), written_inputs_.end(), s.copy->input) != written_inputs_.end();
    VESTA_CHECK(!s.copy || i >= first_copy_, "step {} copies to an input before the last computation", i);
    artifact::for_each_needed(
        steps[i], [&](int b) { VESTA_CHECK(exists[b], "step {} reads buffer {} before it is made", i, b); });
    artifact::for_each_use(steps[i], [&](int b, uint8_t access, bool) {
      if (access & artifact::kWrites) exists[b] = true;
    });
    for (size_t b = 0; b < count; ++b) {
      if (last_use[b] != static_cast<int>(i)) continue;
      const Role role = a.buffers[b].role;
      if (role == Role::Input) {
        if (!owned && !input_kept[a.buffers[b].input]) s.release_inputs.push_back(a.buffers[b].input);
      } else if (!is_output[b] && (owned || role == Role::Returned || role == Role::Output)) {
        s.release.push_back(static_cast<int>(b));
      }
    }
  }
  for (size_t b = 0; b < count; ++b) {
    if (is_output[b] && !exists[b]) never_written_.push_back(static_cast<int>(b));
  }
  find_first_mutation(a, steps);
}

void BoundProgram::find_first_mutation(const artifact::Artifact& a, const std::vector<artifact::Step>& steps) {
  std::vector<bool> read(a.buffers.size(), false);
  const auto replaced = [&](const artifact::Launch& l, size_t k) {
    const int b = l.buffers[k];
    return (l.access.empty() || l.access[k] & artifact::kWrites) && read[b] && a.buffers[b].role == Role::Input &&
           std::find(written_inputs_.begin(), written_inputs_.end(), a.buffers[b].input) != written_inputs_.end();
  };
  for (first_mutation_ = 0; first_mutation_ < first_copy_; ++first_mutation_) {
    const BoundStep& s = steps_[first_mutation_];
    bool found = false;
    if (s.launch) {
      const artifact::Launch& l = *s.launch;
      for (size_t k = 0; k < l.buffers.size(); ++k) {
        if (l.access.empty() || l.access[k] & artifact::kReads) read[l.buffers[k]] = true;
      }
      for (size_t k = 0; k < l.buffers.size(); ++k) found |= replaced(l, k);
    } else if (s.call || s.region) {
      artifact::for_each_needed(steps[first_mutation_], [&](int b) { read[b] = true; });
    }
    if (found) break;
  }
  if (first_mutation_ == first_copy_) return;
  const artifact::Definitions definitions(a);
  std::vector<int>& before = steps_[first_mutation_].allocate;
  const auto move = [&](std::vector<int>& buffers) {
    std::erase_if(buffers, [&](int b) {
      const bool known = definitions.known_after(a.buffers[b].type) < static_cast<int>(first_mutation_);
      if (known) before.push_back(b);
      return known;
    });
  };
  for (size_t i = first_mutation_ + 1; i < first_copy_; ++i) move(steps_[i].allocate);
  move(never_written_);
}

std::vector<const c10::FunctionSchema*> BoundProgram::schemas() const {
  std::vector<const c10::FunctionSchema*> out(steps_.size(), nullptr);
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].handle) out[i] = &steps_[i].handle->schema();
  }
  return out;
}

}  // namespace vesta::runtime
