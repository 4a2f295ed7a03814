#include "base/compile_memory.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <limits>
#include <mutex>
#include <string>

#include "base/byte_text.h"

namespace vesta {
namespace {

// Parts of a budget, in eighths.
constexpr int64_t kGraphs = 1, kPlans = 3, kGenerators = 4, kAll = 8;
static_assert(kGraphs + kPlans + kGenerators == kAll);

int64_t part_of(int64_t budget, int64_t eighths) { return budget / kAll * eighths; }
int64_t eighths_of(CompileMemory::Part part) { return part == CompileMemory::Part::Plans ? kPlans : kGenerators; }

// A limit that a file of a control group states; the largest number if it states none.
int64_t limit_in(const std::string& file) {
  int64_t bytes = std::numeric_limits<int64_t>::max();
  std::ifstream in(file);
  if (!(in >> bytes)) return std::numeric_limits<int64_t>::max();  // no such file, or "max"
  return bytes;
}

// The smallest limit of the process's control group and of those around it.
int64_t limit_of_control_group() {
  int64_t least = std::min(limit_in("/sys/fs/cgroup/memory.max"),  // inside of a container
                           limit_in("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const bool second_version = line.starts_with("0::");
    const size_t memory = line.find(":memory:");
    if (!second_version && memory == std::string::npos) continue;
    std::string path = line.substr(second_version ? 3 : memory + 8);
    const std::string root = second_version ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const std::string name = second_version ? "/memory.max" : "/memory.limit_in_bytes";
    for (; path.size() > 1; path.resize(path.rfind('/')))
      least = std::min(least, limit_in(fmt::format("{}{}{}", root, path, name)));
  }
  return least;
}

}  // namespace

int64_t usable_memory() {
  static const int64_t bytes = [] {
    int64_t least = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    least = std::min(least, limit_of_control_group());
    rlimit space{};
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur < static_cast<rlim_t>(least))
      least = static_cast<int64_t>(space.rlim_cur);
    return least;
  }();
  return bytes;
}

int64_t compile_budget(int64_t option) { return option >= 0 ? option : usable_memory() / 4; }

int64_t generator_memory(int64_t budget) { return part_of(budget, kGenerators); }

bool graphs_fit(int64_t budget) { return totals::bytes(totals::Memory::Graphs) <= part_of(budget, kGraphs); }

std::string why_graphs_do_not_fit(int64_t budget) {
  return fmt::format("{}, of which graphs may take {}", byte_text(budget), byte_text(part_of(budget, kGraphs)));
}

struct CompileMemory::Account {
  std::mutex mutex;
  std::condition_variable changed;
  int64_t held = 0;
};

std::atomic<CompileMemory::Accounts*>& CompileMemory::accounts() {
  static std::atomic<Accounts*> now = new Accounts;
  return now;
}
// The compiles of other threads do not exist in a forked child.
const AtFork CompileMemory::at_fork_(ForkStage::Accounts, nullptr, nullptr, [] { accounts() = new Accounts; });

CompileMemory::Account& CompileMemory::account(Part part) { return (*accounts())[static_cast<size_t>(part)]; }

CompileMemory::CompileMemory(Part part)
    : part_(part),
      account_(&account(part)),
      kept_(part == Part::Plans ? totals::Memory::Plans : totals::Memory::Generators) {}

CompileMemory::~CompileMemory() {
  kept_.set(0);  // before another owner may take the bytes
  const std::lock_guard lock(account_->mutex);
  account_->held -= bytes_;
  account_->changed.notify_all();
}

void CompileMemory::require(int64_t bytes, int64_t budget, std::string_view what) const {
  const int64_t most = part_of(budget, eighths_of(part_));
  if (bytes <= most) return;
  throw OverBudget(
      fmt::format(
          "{} takes about {} of memory, and the option compile_memory ({}) leaves {} for it; with {} it would fit",
          what, byte_text(bytes), byte_text(budget), byte_text(most),
          byte_text((bytes / eighths_of(part_) + 1) * kAll)),
      bytes);
}

void CompileMemory::take(int64_t bytes, int64_t budget, std::string_view what, const CancelToken* cancel) {
  require(bytes, budget, what);
  hold(bytes, part_of(budget, eighths_of(part_)), cancel);
}

int64_t CompileMemory::take_all(int64_t budget, const CancelToken* cancel) {
  const int64_t most = part_of(budget, eighths_of(part_));
  hold(most, most, cancel);
  return most;
}

void CompileMemory::hold(int64_t bytes, int64_t most, const CancelToken* cancel) {
  std::unique_lock lock(account_->mutex);
  kept_.set(0);
  account_->held -= bytes_;
  bytes_ = 0;
  account_->changed.notify_all();
  constexpr std::chrono::milliseconds kBetweenChecks{10};
  while (account_->held > most - bytes) {
    if (cancel) cancel->check();
    account_->changed.wait_for(lock, kBetweenChecks);
  }
  account_->held += bytes;
  bytes_ = bytes;
  lock.unlock();
  kept_.set(bytes);
}

}  // namespace vesta
