#include "base/fault.h"

#include <map>
#include <mutex>
#include <set>
#include <string>

namespace vesta::fault {
namespace {

struct Faults {
  std::mutex mutex;
  std::map<std::string, std::function<void()>, std::less<>> by_stage;
  std::set<std::string, std::less<>> spoiled;
  std::function<void(std::string_view)> nth;  // the fault of the place number `n`
  size_t n = 0;
  std::vector<std::string> reached;  // while `nth` is set
  void changed() const { detail::any = !by_stage.empty() || !spoiled.empty() || nth; }
};
Faults& faults() {
  static auto* f = new Faults;
  return *f;
}

}  // namespace

std::atomic<bool> detail::any{false};

void detail::reached(std::string_view stage) {
  Faults& all = faults();
  std::function<void()> fault;
  {
    const std::lock_guard lock(all.mutex);
    if (all.nth) {
      if (all.reached.size() == all.n) fault = [nth = all.nth, stage = std::string(stage)] { nth(stage); };
      all.reached.emplace_back(stage);
    }
    if (const auto it = all.by_stage.find(stage); !fault && it != all.by_stage.end()) fault = it->second;
  }
  if (fault) fault();
}

void inject_at(size_t n, std::function<void(std::string_view)> fault) {
  Faults& all = faults();
  const std::lock_guard lock(all.mutex);
  if (fault) {
    all.n = n;
    all.reached.clear();
  }
  all.nth = std::move(fault);
  all.changed();
}

std::vector<std::string> reached_since() {
  const std::lock_guard lock(faults().mutex);
  return faults().reached;
}

void inject(std::string_view stage, std::function<void()> fault) {
  Faults& all = faults();
  const std::lock_guard lock(all.mutex);
  if (fault)
    all.by_stage.insert_or_assign(std::string(stage), std::move(fault));
  else if (const auto it = all.by_stage.find(stage); it != all.by_stage.end())
    all.by_stage.erase(it);
  all.changed();
}

bool detail::spoils(std::string_view stage) {
  const std::lock_guard lock(faults().mutex);
  return faults().spoiled.contains(stage);
}

void spoil(std::string_view stage, bool wrong) {
  Faults& all = faults();
  const std::lock_guard lock(all.mutex);
  if (wrong)
    all.spoiled.emplace(stage);
  else if (const auto it = all.spoiled.find(stage); it != all.spoiled.end())
    all.spoiled.erase(it);
  all.changed();
}

}  // namespace vesta::fault
