#include "runtime/resolver.h"

#include <algorithm>
#include <array>

namespace vesta::runtime {

struct Resolver::Recent {
  static constexpr size_t kKept = 8;
  std::array<std::shared_ptr<const Resolved>, kKept> list;  // newest first
};

Resolver::Resolver(const artifact::Artifact& artifact, Schemas schemas)
    : artifact_(artifact), definitions_(artifact), shaping_(artifact, definitions_), schemas_(std::move(schemas)) {
  if (artifact.is_static) only_ = resolve(artifact, definitions_, shaping_, schemas_, {}, nullptr);
}

std::shared_ptr<const Resolved> Resolver::first(std::span<const int64_t> symbols) {
  const std::shared_ptr<const Recent> recent = recent_.load();
  if (recent) {
    for (const auto& r : recent->list) {
      if (r && shaping_.are_equal(r->symbols, symbols)) return r;
    }
  }
  auto made = resolve(artifact_, definitions_, shaping_, schemas_, symbols, nullptr);
  auto kept = std::make_shared<Recent>();
  kept->list[0] = made;
  if (recent) std::copy(recent->list.begin(), recent->list.end() - 1, kept->list.begin() + 1);
  recent_.store(std::move(kept));
  return made;
}

std::shared_ptr<const Resolved> Resolver::next(const Resolved& now, std::span<const int64_t> symbols) const {
  std::shared_ptr<const Resolved> known = now.next.load();
  if (known && shaping_.are_equal(known->symbols, symbols)) return known;
  auto made = resolve(artifact_, definitions_, shaping_, schemas_, symbols, &now);
  now.next.store(made);
  return made;
}

}  // namespace vesta::runtime
