#include "vesta/report.h"

#include <fmt/format.h>

#include <algorithm>

namespace vesta {

namespace {

std::string bytes(int64_t n) {
  if (n < 10 << 10) return fmt::format("{} B", n);
  if (n < int64_t{10} << 20) return fmt::format("{:.1f} KiB", n / 1024.0);
  return fmt::format("{:.1f} MiB", n / 1024.0 / 1024.0);
}

std::string variant_text(const CompileReport& r, size_t index) {
  const std::string early = r.early_arena_bytes > 0 ? fmt::format(" and {} that is released before the large results",
                                                                  bytes(r.early_arena_bytes))
                                                    : "";
  const std::string cached = r.cached               ? ", found in the cache"
                             : r.cached_kernels > 0 ? fmt::format(", {} from the cache", r.cached_kernels)
                                                    : "";
  std::string out = fmt::format(
      "  variant {}: {} operators traced; {} fused into {} kernels ({} distinct{}, {} of code), {} calls into ATen; "
      "arena {}{}, prepacked constants {}; {:.1f} ms\n",
      index, r.ops_traced, r.ops_fused, r.kernels.size(), r.distinct_kernels, cached, bytes(r.code_bytes), r.ops_extern,
      bytes(r.arena_bytes), early, bytes(r.packed_bytes), r.total_ms);
  out += "    stages:";
  double passes = 0;
  for (const StageTime& s : r.stages) {
    if (s.name.starts_with("pass:")) passes += s.ms;
  }
  bool passes_shown = false;
  for (const StageTime& s : r.stages) {
    if (s.name.starts_with("pass:")) {
      if (!passes_shown) out += fmt::format(" passes {:.2f} ms", passes);
      passes_shown = true;
    } else {
      out += fmt::format(" {} {:.2f} ms", s.name, s.ms);
    }
  }
  out += "\n";
  if (r.layers > 0)
    out += fmt::format("    {} layers are alike: a few of them were planned, and their steps repeated for the others\n",
                       r.layers);
  if (r.plan_memory > 0)
    out += fmt::format("    memory of the compile: graph {}, plan {}, LLVM {} for the largest kernel\n",
                       bytes(r.graph_memory), bytes(r.plan_memory), bytes(r.kernel_memory));
  std::map<std::string, std::pair<int64_t, const KernelInfo*>> kernels;
  for (const KernelInfo& k : r.kernels) {
    auto& entry = kernels[fmt::format("{} {}", k.name, k.bytes)];
    ++entry.first;
    entry.second = &k;
  }
  std::vector<std::pair<int64_t, const KernelInfo*>> order;
  for (const auto& [name, entry] : kernels) order.push_back(entry);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first * a.second->bytes > b.first * b.second->bytes; });
  for (const auto& [count, k] : order) {
    out += fmt::format("    {} launches of {}: {} operators, {}, about {:.1f} us each\n", count, k->name, k->ops.size(),
                       bytes(k->bytes), k->estimated_us);
  }
  if (r.tuning) out += fmt::format("    tuning: {}\n", to_string(*r.tuning));
  if (r.graphs) out += fmt::format("    CUDA graphs: {}\n", to_string(*r.graphs));
  for (const ExternReason& e : r.externs)
    out += fmt::format("    {} calls into ATen of {}: {}\n", e.count, e.op, e.reason);
  for (const std::string& g : r.guards) out += fmt::format("    guard {}\n", g);
  return out;
}

}  // namespace

std::string to_string(const GraphReport& r) {
  if (!r.why_none.empty()) return "none: " + r.why_none;
  if (r.recorded == 0) return "none yet: the second call with the same sizes on a stream is recorded";
  std::string out = fmt::format("recorded {} times in {:.1f} ms; {} recordings kept, with {} graphs, {} nodes and {}",
                                r.recorded, r.record_ms, r.kept, r.graphs, r.nodes, bytes(r.bytes));
  for (const auto& [why, count] : r.direct) out += fmt::format("; {} steps run outside of them: {}", count, why);
  return out;
}

std::string to_string(const TuningReport& r) {
  if (!r.why_none.empty()) return "none: " + r.why_none;
  std::string out = fmt::format("measured {} schedules of {} kernels in {:.1f} s", r.schedules, r.measured, r.seconds);
  if (r.known > 0) out += fmt::format(", read the choice for {} kernels from the cache", r.known);
  out += fmt::format("; changed {} kernels", r.changed);
  if (r.before_us > 0) out += fmt::format(", {:.1f} us -> {:.1f} us", r.before_us, r.after_us);
  if (r.left > 0) out += fmt::format("; there was no time or memory for {} kernels", r.left);
  return out;
}

std::string to_string(const FunctionReport& r) {
  std::string out = fmt::format("{}: {} variants, {} hits, {} misses\n", r.name.empty() ? "function" : r.name,
                                r.variants.size(), r.hits, r.misses);
  for (size_t i = 0; i < r.variants.size(); ++i) out += variant_text(r.variants[i], i);
  for (const std::string& why : r.recompiles) out += fmt::format("  recompiled: {}\n", why);
  for (const std::string& why : r.failures) out += fmt::format("  compiled without symbolic sizes: {}\n", why);
  for (const Fallback& f : r.fallbacks) out += fmt::format("  {} calls ran eager: {}\n", f.count, f.reason);
  return out;
}

}  // namespace vesta
