#include "base/at_fork.h"

#include <pthread.h>

#include <algorithm>
#include <ranges>
#include <vector>

#include "base/no_fork.h"

namespace vesta {

namespace {

struct Handlers {
  ForkStage stage;
  AtFork::Handler prepare, parent, child;
};

// One thread fills it while the library is loaded. It is never destroyed, because a process may fork while it exits.
std::vector<Handlers>& all() {
  static auto* const handlers = new std::vector<Handlers>;
  return *handlers;
}

void before_fork() {
  NoFork::wait_for_others();
  for (const Handlers& h : all())
    if (h.prepare) h.prepare();
}
void in_parent() {
  for (const Handlers& h : std::views::reverse(all()))
    if (h.parent) h.parent();
  NoFork::go_on();
}
void in_child() {
  for (const Handlers& h : std::views::reverse(all()))
    if (h.child) h.child();
  NoFork::start_anew();
}

}  // namespace

AtFork::AtFork(ForkStage stage, Handler prepare, Handler parent, Handler child) {
  if (all().empty()) pthread_atfork(before_fork, in_parent, in_child);
  const auto at = std::ranges::upper_bound(all(), stage, {}, &Handlers::stage);
  all().insert(at, {stage, prepare, parent, child});
}

}  // namespace vesta
