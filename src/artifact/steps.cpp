#include "artifact/steps.h"

#include <set>

#include "artifact/uses.h"

namespace vesta::artifact {
namespace {

using Writers = std::set<int32_t>;  // steps that wrote to a buffer

int64_t arena_bytes_at(const Artifact& a, int step) {
  if (!a.is_static) return -1;
  int64_t bytes = 0;
  for (const Buffer& b : a.buffers)
    if (b.role == Role::Arena && b.first_step <= step && step <= b.last_step) bytes += b.bytes.run({});
  return bytes;
}

class Collector {
 public:
  // `written`: for each buffer of `a`, the steps that wrote to it before. Returns those of the end.
  std::vector<Writers> add(const Artifact& a, std::vector<Writers> written) {
    size_t kernel = 0;  // a.about lists the kernels of both lists of steps in their order
    for (const Step& s : a.prepacked) kernel += std::holds_alternative<Launch>(s);
    for (size_t i = 0; i < a.steps.size(); ++i) {
      const Step& s = a.steps[i];
      if (const auto* call = std::get_if<Call>(&s)) {
        enter(a, *call, written);
        continue;
      }
      const auto number = static_cast<int32_t>(steps.size());
      StepInfo info = named(s);
      if (info.is_kernel && kernel < a.about.kernels.size()) {
        const KernelInfo& known = a.about.kernels[kernel++];
        info.ops = known.ops;
        info.bytes = known.bytes;
        info.estimated_us = known.estimated_us;
      }
      info.arena_bytes = arena_bytes_at(a, static_cast<int>(i));
      Writers after;
      for_each_use(s, [&](int b, uint8_t access, bool) {
        Writers& w = written[static_cast<size_t>(b)];
        if (access & kReads) after.insert(w.begin(), w.end());
      });
      for_each_use(s, [&](int b, uint8_t access, bool) {
        if (!(access & kWrites)) return;
        Writers& w = written[static_cast<size_t>(b)];
        if (access & kReads) w.clear();  // it is among the steps whose results this one reads
        w.insert(number);
      });
      info.after.assign(after.begin(), after.end());
      steps.push_back(std::move(info));
    }
    return written;
  }

  std::vector<StepInfo> steps;

 private:
  static StepInfo named(const Step& s) {
    StepInfo info;
    if (const auto* l = std::get_if<Launch>(&s)) {
      info.name = l->name;
      info.is_kernel = true;
    } else if (const auto* e = std::get_if<Extern>(&s)) {
      info.name = e->op;
      info.source = e->source;
    } else if (std::holds_alternative<Assert>(s)) {
      info.name = "check";
    } else {
      info.name = "write to an input";
    }
    return info;
  }

  void enter(const Artifact& a, const Call& call, std::vector<Writers>& written) {
    const Artifact& entry = a.entries[static_cast<size_t>(call.entry)];
    std::vector<Writers> inner(entry.buffers.size());
    for (size_t b = 0; b < entry.buffers.size(); ++b) {
      const int input = entry.buffers[b].role == Role::Input ? entry.buffers[b].input : -1;
      const int given = input < 0 ? -1 : call.inputs[static_cast<size_t>(input)].buffer;
      if (given >= 0) inner[b] = written[static_cast<size_t>(given)];
    }
    inner = add(entry, std::move(inner));
    for (size_t i = 0; i < call.results.size(); ++i) {
      const int from = entry.outputs[i].view.buffer;
      if (call.results[i] >= 0 && from >= 0)
        written[static_cast<size_t>(call.results[i])] = inner[static_cast<size_t>(from)];
    }
  }
};

}  // namespace

std::vector<StepInfo> steps_of(const Artifact& artifact) {
  Collector all;
  all.add(artifact, std::vector<Writers>(artifact.buffers.size()));
  return std::move(all.steps);
}

}  // namespace vesta::artifact
