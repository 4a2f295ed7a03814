#include "base/totals.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <mutex>

#include "base/at_fork.h"

namespace vesta::totals {
namespace {

constexpr size_t kMostNames = 256;

struct State {
  std::mutex mutex;  // guards everything but what is added and the values of tallies
  std::array<Total, kCounts> counts;
  std::array<std::map<std::string, Total, std::less<>>, kByNames> by_name;
  std::array<std::atomic<int64_t>, kMemories> bytes{}, peaks{};
  std::array<std::map<std::string, int64_t>, kMemories> by_owner;
};

// Never destroyed: objects in static storage count until the process ends. A forked child finds the mutex free.
State& state() {
  static State* const s = new State;
  return *s;
}
const AtFork at_fork(
    ForkStage::Accounts, [] { state().mutex.lock(); }, [] { state().mutex.unlock(); }, [] { state().mutex.unlock(); });

}  // namespace

int64_t Total::all() const {
  int64_t sum = added_.load(std::memory_order_relaxed);
  for (const Tally* t = first_; t; t = t->next_) sum += t->value();
  return sum;
}

int64_t Total::now() const {
  const std::lock_guard lock(state().mutex);
  return all() - at_reset_;
}

Tally::Tally(Total& total) : total_(total) {
  const std::lock_guard lock(state().mutex);
  next_ = total.first_;
  if (next_) next_->previous_ = this;
  total.first_ = this;
}

Tally::~Tally() {
  const std::lock_guard lock(state().mutex);
  total_.add(value());
  (previous_ ? previous_->next_ : total_.first_) = next_;
  if (next_) next_->previous_ = previous_;
}

void Tally::clear() {
  const std::lock_guard lock(state().mutex);
  total_.add(value_.exchange(0, std::memory_order_relaxed));
}

Total& of(Count count) { return state().counts[static_cast<size_t>(count)]; }

Total& of(ByName count, std::string_view name) {
  const std::lock_guard lock(state().mutex);
  auto& known = state().by_name[static_cast<size_t>(count)];
  const auto at = known.find(name);
  if (at != known.end()) return at->second;
  return known[std::string(known.size() < kMostNames ? name : "other")];
}

std::map<std::string, int64_t> by_name(ByName count) {
  const std::lock_guard lock(state().mutex);
  std::map<std::string, int64_t> out;
  for (const auto& [name, total] : state().by_name[static_cast<size_t>(count)])
    if (const int64_t n = total.all() - total.at_reset_) out.emplace(name, n);
  return out;
}

void reset_counts() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (Total& t : s.counts) t.at_reset_ = t.all();
  for (auto& names : s.by_name)
    for (auto& [name, t] : names) t.at_reset_ = t.all();
  for (size_t i = 0; i < kMemories; ++i) s.peaks[i] = s.bytes[i].load();
}

int64_t bytes(Memory memory) { return state().bytes[static_cast<size_t>(memory)].load(std::memory_order_relaxed); }

int64_t peak_bytes(Memory memory) { return state().peaks[static_cast<size_t>(memory)].load(std::memory_order_relaxed); }

std::map<std::string, int64_t> bytes_by_owner(Memory memory) {
  const std::lock_guard lock(state().mutex);
  return state().by_owner[static_cast<size_t>(memory)];
}

void KeptBytes::set(int64_t bytes) {
  if (bytes == bytes_) return;
  State& s = state();
  const auto i = static_cast<size_t>(memory_);
  const int64_t more = bytes - bytes_;
  const int64_t now = s.bytes[i].fetch_add(more, std::memory_order_relaxed) + more;
  for (int64_t peak = s.peaks[i].load(std::memory_order_relaxed);
       now > peak && !s.peaks[i].compare_exchange_weak(peak, now, std::memory_order_relaxed);) {
  }
  bytes_ = bytes;
  if (owner_.empty()) return;
  const std::lock_guard lock(s.mutex);
  const auto at = s.by_owner[i].try_emplace(owner_, 0).first;
  if ((at->second += more) == 0) s.by_owner[i].erase(at);
}

std::string name_of_thread() {
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return "thread " + std::to_string(gettid()) + " " + name;
}

}  // namespace vesta::totals
