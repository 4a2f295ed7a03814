#include "vesta/stats.h"

#include <fmt/format.h>

#include <iterator>
#include <numeric>
#include <vector>

#include "base/byte_text.h"
#include "base/totals.h"

namespace vesta {
namespace {

// The stages of a compile in their order, then the packing of weights, which a run begins with. Other stages follow.
constexpr const char* kStages[] = {"trace",   "split",    "find",   "passes", "plan", "tune",
                                   "codegen", "assemble", "encode", "load",   "pack"};

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

// The amounts of memory, in the order in which a table shows them.
struct MemoryRow {
  totals::Memory memory;
  int64_t Stats::* bytes;
  const char* name;    // in Stats::peak_bytes
  const char* text;    // in a table
  const char* metric;  // in Prometheus's format, with the text after it
  const char* help;
};
using totals::Memory;
constexpr MemoryRow kMemory[] = {
    {Memory::Graphs, &Stats::graph_bytes, "graph_bytes", "graphs", "vesta_graph_bytes",
     "Graphs of compiles that go on, an estimate."},
    {Memory::Plans, &Stats::plan_bytes, "plan_bytes", "plans", "vesta_plan_bytes",
     "Plans of compiles that go on, an estimate."},
    {Memory::Generators, &Stats::generator_bytes, "generator_bytes", "code generation", "vesta_generator_bytes",
     "What LLVM takes for the kernels it is compiling, an estimate."},
    {Memory::Code, &Stats::code_bytes, "code_bytes", "machine code", "vesta_code_bytes", "Machine code of kernels."},
    {Memory::Arenas, &Stats::arena_bytes, "arena_bytes", "arenas", "vesta_arena_bytes",
     "Memory for intermediates, which threads keep between calls."},
    {Memory::KeptOutputs, &Stats::pool_bytes, "pool_bytes", "kept outputs", "vesta_pool_bytes",
     "Freed outputs, kept for the next ones of their size."},
    {Memory::PackedWeights, &Stats::packed_bytes, "packed_bytes", "packed weights", "vesta_packed_weight_bytes",
     "Packed and folded weights."},
    {Memory::CudaGraphs, &Stats::cuda_graph_bytes, "cuda_graph_bytes", "CUDA graphs", "vesta_cuda_graph_bytes",
     "Memory of recorded CUDA graphs."},
};
static_assert(std::size(kMemory) == totals::kMemories);

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
    labelled(name, label, all);
  }
  void gauges(const char* name, const char* help, const char* label,
              const std::vector<std::pair<std::string, int64_t>>& all) {
    begin(name, help, "gauge");
    labelled(name, label, all);
  }
  std::string take() { return std::move(text_); }

 private:
  template <class T>
  void labelled(const char* name, const char* label, const std::vector<std::pair<std::string, T>>& all) {
    for (const auto& [text, value] : all)
      text_ += fmt::format("{}{{{}=\"{}\"}} {}\n", name, label, escaped(text), value);
  }
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
  s.early_hits = now(Count::EarlyHits);
  s.misses = now(Count::Misses);
  s.fallbacks = totals::by_name(ByName::Fallbacks);
  s.artifacts_found = now(Count::ArtifactsFound);
  s.artifacts_missed = now(Count::ArtifactsMissed);
  s.kernels_in_process = now(Count::KernelsInProcess);
  s.kernels_in_store = now(Count::KernelsInStore);
  s.kernels_compiled = now(Count::KernelsCompiled);
  for (const MemoryRow& row : kMemory) {
    s.*row.bytes = totals::bytes(row.memory);
    s.peak_bytes[row.name] = totals::peak_bytes(row.memory);
    s.owner_bytes.merge(totals::bytes_by_owner(row.memory));
  }
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
  t.row("  in tier 1", s.early_hits, "calls into ATen, before the machine code was made");
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
  for (const MemoryRow& row : kMemory) {
    const auto peak = s.peak_bytes.find(row.name);
    t.row(row.text, byte_text(s.*row.bytes),
          peak == s.peak_bytes.end() ? "" : fmt::format("at most {}", byte_text(peak->second)));
  }
  for (const auto& [owner, bytes] : s.owner_bytes) t.row("  " + owner, byte_text(bytes));
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
  e.counter("vesta_early_hits_total", "Of the hits: by calls into ATen, before the machine code was made.",
            s.early_hits);
  e.counter("vesta_guard_misses_total", "Entries of a segment, or calls from C++, that no graph served.", s.misses);
  e.counters("vesta_eager_calls_total", "Calls, or the rests of calls, that ran eager, by reason.", "reason",
             list(s.fallbacks));
  e.counters<int64_t>("vesta_artifacts_total", "Graphs looked up in the cache on disk.", "result",
                      {{"found", s.artifacts_found}, {"missed", s.artifacts_missed}});
  e.counters<int64_t>(
      "vesta_kernels_total", "Kernels by where they came from.", "origin",
      {{"process", s.kernels_in_process}, {"store", s.kernels_in_store}, {"compiled", s.kernels_compiled}});
  std::vector<std::pair<std::string, int64_t>> peaks;
  for (const MemoryRow& row : kMemory) {
    e.gauge(row.metric, row.help, s.*row.bytes);
    if (const auto peak = s.peak_bytes.find(row.name); peak != s.peak_bytes.end())
      peaks.emplace_back(row.text, peak->second);
  }
  e.gauges("vesta_peak_bytes", "The most memory since the counts began, by purpose.", "purpose", peaks);
  e.gauges("vesta_owner_bytes", "Arenas by thread, and CUDA graphs by stream.", "owner", list(s.owner_bytes));
  return e.take();
}

}  // namespace vesta
