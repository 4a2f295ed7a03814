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
  void changed() const { detail::any = !by_stage.empty() || !spoiled.empty(); }
};
Faults& faults() {
  static auto* f = new Faults;
  return *f;
}

}  // namespace

void detail::reached(std::string_view stage) {
  std::function<void()> fault;
  {
    const std::lock_guard lock(faults().mutex);
    const auto it = faults().by_stage.find(stage);
    if (it == faults().by_stage.end()) return;
    fault = it->second;
  }
  fault();
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
