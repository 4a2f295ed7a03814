#include "vesta/stats.h"

#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "base/totals.h"
#include "runtime/output_pool.h"

namespace vesta {
namespace {

// The order in which a compile runs through its stages; others follow.
constexpr const char* kStages[] = {"trace", "find", "passes", "plan", "tune", "codegen", "assemble", "encode", "load"};

std::vector<std::pair<std::string, StageTotal>> in_order(const std::map<std::string, StageTotal>& stages) {
  std::vector<std::pair<std::string, StageTotal>> out;
  auto left = stages;
  for (const char* name : kStages)
    if (const auto node = left.extract(name)) out.emplace_back(name, node.mapped());
  out.insert(out.end(), left.begin(), left.end());
  return out;
}

int64_t sum(const std::map<std::string, int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0},
                         [](int64_t n, const auto& c) { return n + c.second; });
}

std::string bytes(int64_t n) {
  constexpr double kKiB = 1024, kMiB = kKiB * kKiB, kGiB = kMiB * kKiB;
  const auto x = static_cast<double>(n);
  if (x >= kGiB) return fmt::format("{:.1f} GiB", x / kGiB);
  if (x >= kMiB) return fmt::format("{:.1f} MiB", x / kMiB);
  return x >= kKiB ? fmt::format("{:.1f} KiB", x / kKiB) : fmt::format("{} B", n);
}

// "75 %" of hits and misses; "-" without either.
std::string rate(int64_t hits, int64_t misses) {
  if (hits + misses == 0) return "-";
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(hits) / static_cast<double>(hits + misses));
}

// The lines of a table: headings, then names and values in columns.
class Table {
 public:
  void heading(const std::string& text) { text_ += (text_.empty() ? "" : "\n") + text + "\n"; }
  void row(const std::string& name, const std::string& value, const std::string& more = {}) {
    text_ += fmt::format("  {:<24} {:>12}{}\n", name, value, more.empty() ? "" : "  " + more);
  }
  void row(const std::string& name, int64_t value, const std::string& more = {}) {
    row(name, std::to_string(value), more);
  }
  // Counts with a long name: the count comes first.
  void counts(const std::string& name, const std::map<std::string, int64_t>& counts) {
    row(name, sum(counts));
    for (const auto& [text, n] : counts) text_ += fmt::format("    {:>6}  {}\n", n, text);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// Prometheus's text format: https://prometheus.io/docs/instrumenting/exposition_formats/
class Exposition {
 public:
  template <class T>
  void counter(const char* name, const char* help, T value) {
    begin(name, help, "counter");
    text_ += fmt::format("{} {}\n", name, value);
  }
  void gauge(const char* name, const char* help, int64_t value) {
    begin(name, help, "gauge");
    text_ += fmt::format("{} {}\n", name, value);
  }
  template <class T>
  void counters(const char* name, const char* help, const char* label,
                const std::vector<std::pair<std::string, T>>& all) {
    begin(name, help, "counter");
    for (const auto& [text, value] : all)
      text_ += fmt::format("{}{{{}=\"{}\"}} {}\n", name, label, escaped(text), value);
  }
  std::string take() { return std::move(text_); }

 private:
  void begin(const char* name, const char* help, const char* type) {
    text_ += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
  }
  static std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
      if (c == '\\' || c == '"') out += '\\';
      out += c == '\n' ? std::string("\\n") : std::string(1, c);
    }
    return out;
  }
  std::string text_;
};

std::vector<std::pair<std::string, int64_t>> list(const std::map<std::string, int64_t>& counts) {
  return {counts.begin(), counts.end()};
}

}  // namespace

double Stats::compile_ms() const {
  return std::accumulate(stages.begin(), stages.end(), 0.0, [](double ms, const auto& s) { return ms + s.second.ms; });
}

Stats stats() {
  using totals::ByName;
  using totals::Count;
  const auto now = [](Count count) { return totals::of(count).now(); };
  Stats s;
  for (const auto& [name, n] : totals::by_name(ByName::StageRuns)) s.stages[name].runs = n;
  for (const auto& [name, ns] : totals::by_name(ByName::StageNanoseconds))
    s.stages[name].ms = static_cast<double>(ns) / 1e6;
  s.waited_ms = static_cast<double>(now(Count::WaitedNanoseconds)) / 1e6;
  s.frames = now(Count::Frames);
  s.segments = now(Count::Segments);
  s.variants = now(Count::Variants);
  s.recompiles = now(Count::Recompiles);
  s.breaks = totals::by_name(ByName::Breaks);
  s.calls = now(Count::Calls);
  s.aside = now(Count::Aside);
  s.hits = now(Count::Hits);
  s.misses = now(Count::Misses);
  s.fallbacks = totals::by_name(ByName::Fallbacks);
  s.artifacts_found = now(Count::ArtifactsFound);
  s.artifacts_missed = now(Count::ArtifactsMissed);
  s.kernels_in_process = now(Count::KernelsInProcess);
  s.kernels_in_store = now(Count::KernelsInStore);
  s.kernels_compiled = now(Count::KernelsCompiled);
  s.code_bytes = totals::bytes(totals::Memory::Code);
  s.arena_bytes = totals::bytes(totals::Memory::Arenas);
  s.pool_bytes = runtime::kept_output_bytes();
  s.packed_bytes = totals::bytes(totals::Memory::PackedWeights);
  return s;
}

void reset_stats() { totals::reset_counts(); }

std::string to_string(const Stats& s) {
  Table t;
  t.heading("Compiles");
  t.row("stages", fmt::format("{:.1f} ms", s.compile_ms()));
  for (const auto& [name, stage] : in_order(s.stages))
    t.row("  " + name, fmt::format("{:.1f} ms", stage.ms),
          fmt::format("{} {}", stage.runs, stage.runs == 1 ? "run" : "runs"));
  t.row("calls waited", fmt::format("{:.1f} ms", s.waited_ms));
  t.row("frames", s.frames);
  t.row("segments", s.segments);
  t.row("variants", s.variants);
  t.row("recompiles", s.recompiles);
  t.counts("graph breaks", s.breaks);
  t.heading("Calls");
  t.row("calls", s.calls);
  t.row("run uncompiled", s.aside, "a compile gains nothing");
  t.row("hits", s.hits, rate(s.hits, s.misses));
  t.row("misses", s.misses);
  t.counts("eager calls", s.fallbacks);
  t.heading("Caches");
  t.row("artifacts on disk", s.artifacts_found, rate(s.artifacts_found, s.artifacts_missed));
  t.row("artifacts missed", s.artifacts_missed);
  t.row("kernels in process", s.kernels_in_process,
        rate(s.kernels_in_process, s.kernels_in_store + s.kernels_compiled));
  t.row("kernels on disk", s.kernels_in_store, rate(s.kernels_in_store, s.kernels_compiled));
  t.row("kernels compiled", s.kernels_compiled);
  t.heading("Memory");
  t.row("machine code", bytes(s.code_bytes));
  t.row("arenas", bytes(s.arena_bytes));
  t.row("kept outputs", bytes(s.pool_bytes));
  t.row("packed weights", bytes(s.packed_bytes));
  return t.take();
}

std::string prometheus(const Stats& s) {
  Exposition e;
  std::vector<std::pair<std::string, double>> seconds;
  std::vector<std::pair<std::string, int64_t>> runs;
  for (const auto& [name, stage] : in_order(s.stages)) {
    seconds.emplace_back(name, stage.ms / 1e3);
    runs.emplace_back(name, stage.runs);
  }
  e.counters("vesta_compile_seconds_total", "Time of compiles by stage.", "stage", seconds);
  e.counters("vesta_compile_stages_total", "Stages that ran, by name.", "stage", runs);
  e.counter("vesta_waited_seconds_total", "Time that calls spent on traces and compiles.", s.waited_ms / 1e3);
  e.counter("vesta_frames_total", "Python functions of which a part was compiled.", s.frames);
  e.counter("vesta_segments_total", "Parts of functions between graph breaks that were compiled.", s.segments);
  e.counter("vesta_variants_total", "Graphs made.", s.variants);
  e.counter("vesta_recompiles_total", "Graphs made because a guard failed.", s.recompiles);
  e.counters("vesta_graph_breaks_total", "Traces that ended at a graph break, by its kind.", "kind", list(s.breaks));
  e.counter("vesta_calls_total", "Calls of compiled Python functions.", s.calls);
  e.counter("vesta_uncompiled_calls_total", "Calls that ran uncompiled because a compile gains nothing.", s.aside);
  e.counter("vesta_guard_hits_total", "Entries of a segment, or calls from C++, that a graph served.", s.hits);
  e.counter("vesta_guard_misses_total", "Entries of a segment, or calls from C++, that no graph served.", s.misses);
  e.counters("vesta_eager_calls_total", "Calls, or the rests of calls, that ran eager, by reason.", "reason",
             list(s.fallbacks));
  e.counters<int64_t>("vesta_artifacts_total", "Graphs looked up in the cache on disk.", "result",
                      {{"found", s.artifacts_found}, {"missed", s.artifacts_missed}});
  e.counters<int64_t>(
      "vesta_kernels_total", "Kernels by where they came from.", "origin",
      {{"process", s.kernels_in_process}, {"store", s.kernels_in_store}, {"compiled", s.kernels_compiled}});
  e.gauge("vesta_code_bytes", "Machine code of kernels.", s.code_bytes);
  e.gauge("vesta_arena_bytes", "Memory for intermediates, which threads keep between calls.", s.arena_bytes);
  e.gauge("vesta_pool_bytes", "Freed outputs, kept for the next ones of their size.", s.pool_bytes);
  e.gauge("vesta_packed_weight_bytes", "Packed and folded weights.", s.packed_bytes);
  return e.take();
}

}  // namespace vesta
