// Counts and amounts of the whole process: what vesta::stats() shows. What happens seldom adds to a total. What happens
// in every call adds to a tally, which belongs to the object that is called and costs what an integer costs.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace vesta::totals {

class Tally;
enum class ByName : uint8_t;

// The sum of what was added and of all tallies, those of objects that are gone included. Any thread may call any
// function.
class Total {
 public:
  Total() = default;
  Total(const Total&) = delete;
  void add(int64_t n = 1) { added_.fetch_add(n, std::memory_order_relaxed); }
  int64_t now() const;  // since the last reset_counts()

 private:
  friend class Tally;
  friend void reset_counts();
  friend std::map<std::string, int64_t> by_name(ByName count);
  int64_t all() const;  // the lock of the tallies is held
  std::atomic<int64_t> added_{0};
  int64_t at_reset_ = 0;
  Tally* first_ = nullptr;
};

// A part of a total that one object counts.
class Tally {
 public:
  explicit Tally(Total& total);
  ~Tally();
  Tally(const Tally&) = delete;

  // By one thread at a time.
  Tally& operator++() {
    value_.store(value_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return *this;
  }
  void count_shared() { value_.fetch_add(1, std::memory_order_relaxed); }  // by any thread
  int64_t value() const { return value_.load(std::memory_order_relaxed); }
  void clear();  // the object begins again at 0, and the total keeps its count

 private:
  friend class Total;
  std::atomic<int64_t> value_{0};
  Total& total_;
  Tally *previous_ = nullptr, *next_ = nullptr;  // of the same total
};

enum class Count : uint8_t {
  Frames,    // functions of which a segment was compiled
  Segments,  // of which a variant was made
  Variants,
  Recompiles,
  WaitedNanoseconds,  // that calls spent on captures and compiles
  Calls,
  Aside,
  Hits,
  EarlyHits,  // of the hits: by calls into ATen, while the machine code was being made
  Misses,
  ArtifactsFound,  // in the store
  ArtifactsMissed,
  KernelsInProcess,
  KernelsInStore,
  KernelsCompiled,
};
inline constexpr size_t kCounts = 15;
Total& of(Count count);

// Counts by name: of a stage, of a kind of graph break, of a reason.
enum class ByName : uint8_t { StageNanoseconds, StageRuns, Breaks, Fallbacks };
inline constexpr size_t kByNames = 4;
// It lives for ever. Names beyond the first 256 are "other".
Total& of(ByName count, std::string_view name);
std::map<std::string, int64_t> by_name(ByName count);  // without zeros

// Sets every count to 0 for now() and by_name(), and peaks to the present amounts. The counts of single objects stay.
void reset_counts();

// Memory that an object holds, as part of the process's amount. One thread at a time uses an object.
enum class Memory : uint8_t {
  Graphs,      // of compiles and traces that go on
  Plans,       // estimates: base/compile_memory.h
  Generators,  // what code generators take, also estimated
  Code,
  Arenas,
  KeptOutputs,
  PackedWeights,
  CudaGraphs,
};
inline constexpr size_t kMemories = 8;
int64_t bytes(Memory memory);
int64_t peak_bytes(Memory memory);  // the most since the last reset_counts()
// By owner, for objects that name one.
std::map<std::string, int64_t> bytes_by_owner(Memory memory);
class KeptBytes {
 public:
  explicit KeptBytes(Memory memory, int64_t bytes = 0) : memory_(memory) { set(bytes); }
  // `owner`: a thread or a stream, for bytes_by_owner().
  KeptBytes(Memory memory, std::string owner) : memory_(memory), owner_(std::move(owner)) {}
  ~KeptBytes() { set(0); }
  KeptBytes(const KeptBytes&) = delete;
  void set(int64_t bytes);

 private:
  const Memory memory_;
  const std::string owner_;  // empty: none
  int64_t bytes_ = 0;
};
// "thread 4711 python", of the calling thread.
std::string name_of_thread();

}  // namespace vesta::totals
