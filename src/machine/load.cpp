#include "machine/load.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "base/at_fork.h"
#include "base/check.h"
#include "machine/elf.h"

namespace vesta::machine {

namespace {

struct Loaded {
  std::mutex mutex;
  std::unordered_map<std::string, std::weak_ptr<const Code>> by_symbol;
  size_t sweep_at = 1024;
};

// Never destroyed, because kernels may outlive static destructors. fork() waits until no thread is loading.
Loaded& loaded() {
  static auto* const l = new Loaded;
  return *l;
}
const AtFork at_fork(
    ForkStage::Registries, [] { loaded().mutex.lock(); }, [] { loaded().mutex.unlock(); },
    [] { loaded().mutex.unlock(); });

}  // namespace

std::shared_ptr<const Code> load(const Object& object) {
  Loaded& l = loaded();
  const std::lock_guard lock(l.mutex);
  std::weak_ptr<const Code>& known = l.by_symbol[object.symbol];
  if (auto code = known.lock()) return code;
  const auto load_form = object.form == Form::Elf ? load_elf : object.form == Form::Text ? load_text : nullptr;
  VESTA_CHECK(load_form, "{} is no code for this processor", object.symbol);
  std::shared_ptr<const Code> code = load_form(object);
  known = code;
  if (l.by_symbol.size() > l.sweep_at) {
    std::erase_if(l.by_symbol, [](const auto& entry) { return entry.second.expired(); });
    l.sweep_at = std::max<size_t>(1024, 2 * l.by_symbol.size());
  }
  return code;
}

}  // namespace vesta::machine
