#include "base/events.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/at_fork.h"
#include "base/log.h"

namespace vesta::events {

std::atomic<bool> detail::on{false};

namespace {

struct State {
  std::mutex mutex;
  std::deque<Event> ring;
  int64_t dropped = 0;
  bool in_ring = false;
  std::FILE* file = nullptr;
};

// Never destroyed: threads record until the process ends. A forked child finds the mutex free, and records on.
State& state() {
  static State* const s = new State;
  return *s;
}
const AtFork at_fork(
    ForkStage::Accounts, [] { state().mutex.lock(); }, [] { state().mutex.unlock(); }, [] { state().mutex.unlock(); });

// VESTA_EVENTS is read when the library is loaded.
const bool of_environment = [] {
  const char* path = std::getenv("VESTA_EVENTS");
  if (!path || !*path) return false;
  state().file = std::fopen(path, "ae");
  if (!state().file)
    log::warn_once(fmt::format("VESTA_EVENTS: events are not recorded: {}: {}", path, std::strerror(errno)));
  detail::on = state().file != nullptr;
  return true;
}();

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void add(Event event) {
  event.process = getpid();
  event.thread = gettid();
  std::array<char, 16> name{};
  if (pthread_getname_np(pthread_self(), name.data(), name.size()) == 0) event.thread_name = name.data();
  State& s = state();
  std::string line;
  if (s.file) line = to_json(event) + '\n';
  const std::lock_guard lock(s.mutex);
  // Written at once and in one piece, so that the file of a process that hangs or dies is complete.
  if (s.file) std::fwrite(line.data(), 1, line.size(), s.file), std::fflush(s.file);
  if (!s.in_ring) return;
  if (s.ring.size() == kMostEvents) s.ring.pop_front(), ++s.dropped;
  s.ring.push_back(std::move(event));
}

}  // namespace

std::string_view name_of(Type type) {
  static constexpr std::array<std::string_view, 11> kNames = {"call",  "frame", "run",  "capture",   "stage", "kernel",
                                                              "entry", "break", "tier", "recompile", "eager"};
  return kNames.at(static_cast<size_t>(type));
}

std::string to_json(const Event& e) {
  nlohmann::ordered_json out = {{"type", name_of(e.type)},
                                {"name", e.name},
                                {"call", e.ids.call},
                                {"frame", e.ids.frame},
                                {"segment", e.ids.segment},
                                {"variant", e.ids.variant},
                                {"kernel", e.kernel},
                                {"entry", e.entry},
                                {"detail", e.detail},
                                {"start_us", e.start_us},
                                {"us", e.us},
                                {"process", e.process},
                                {"thread", e.thread},
                                {"thread_name", e.thread_name}};
  // Names and reasons quote the program, which may hold any bytes.
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

bool start() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.in_ring) return false;
  s.ring.clear();
  s.dropped = 0;
  s.in_ring = true;
  detail::on = true;
  return true;
}

void stop() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.in_ring = false;
  detail::on = s.file != nullptr;
}

Recorded recorded() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return {{s.ring.begin(), s.ring.end()}, s.dropped};
}

int64_t new_id() {
  static std::atomic<int64_t> last{0};
  return ++last;
}

Ids& current() {
  static thread_local Ids ids;
  return ids;
}

void record(Type type, std::string name, std::string detail, std::string kernel, std::string entry) {
  if (!is_on()) return;
  add({.type = type,
       .name = std::move(name),
       .ids = current(),
       .kernel = std::move(kernel),
       .entry = std::move(entry),
       .detail = std::move(detail),
       .start_us = now_us()});
}

void Span::begin(Type type, std::string_view name) {
  event_.reset(new Event{.type = type, .name = std::string(name), .ids = current(), .start_us = now_us()});
}

void Span::end() noexcept {
  event_->us = now_us() - event_->start_us;
  try {
    add(std::move(*event_));
  } catch (const std::exception&) {  // the event is lost, and nothing else
  }
}

}  // namespace vesta::events
