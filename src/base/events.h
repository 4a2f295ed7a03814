// What happens in the process, as a ring of typed events: vesta::events() in Python, and each as a line of JSON in the
// file that VESTA_EVENTS names. Each event has the ids of what it belongs to: its call, frame, segment and variant, its
// kernel and its entry in the store. While nobody asks for events, a place that has one reads one word.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace vesta::events {

enum class Type : uint8_t {
  Call,       // the outermost compiled call of a thread
  Frame,      // a frame that runs through its segments
  Run,        // a variant's graph, whose guards held
  Capture,    // from a frame to a new variant
  Stage,      // of a compile, by name
  Kernel,     // compiled, or found
  Entry,      // of the store: found, missed or written
  Break,      // a trace ended before its frame did
  Tier,       // a variant whose compile goes on in the background runs in another tier from now on
  Recompile,  // a guard failed, and a new variant is made
  Eager,      // a call, or the rest of one, runs eager
};
std::string_view name_of(Type type);

// 0: none. A segment and a variant have the same id in all of their events; a call and a frame have new ones each time.
struct Ids {
  int64_t call = 0, frame = 0, segment = 0, variant = 0;
};

struct Event {
  Type type{};
  std::string name{};
  Ids ids{};
  std::string kernel{};  // its symbol
  std::string entry{};   // its key in the store
  std::string detail{};
  double start_us = 0, us = 0;  // of the system's monotonic clock; us is 0 for what takes no time
  int64_t process = 0, thread = 0;
  std::string thread_name{};
};
std::string to_json(const Event& event);  // one line

namespace detail {
extern std::atomic<bool> on;
}
inline bool is_on() { return detail::on.load(std::memory_order_relaxed); }

// Records from now on, into an empty ring; false: this goes on already. The oldest events make room for new ones.
bool start();
void stop();
inline constexpr size_t kMostEvents = size_t{1} << 16;
struct Recorded {
  std::vector<Event> events;  // in the order in which they ended
  int64_t dropped = 0;        // those that made room
};
Recorded recorded();  // so far

int64_t new_id();
// What this thread works for now.
Ids& current();
// The thread works for these in a scope.
class Within {
 public:
  explicit Within(const Ids& ids) : before_(current()) { current() = ids; }
  ~Within() { current() = before_; }
  Within(const Within&) = delete;

 private:
  Ids before_;
};

// Records what happens now, in this thread.
void record(Type type, std::string name, std::string detail = {}, std::string kernel = {}, std::string entry = {});

// An event that lasts as long as the object. Without events it does nothing.
class Span {
 public:
  explicit Span(Type type, std::string_view name = {}) {
    if (is_on()) begin(type, name);
  }
  ~Span() {
    if (event_) end();
  }
  Span(const Span&) = delete;
  // The event, to be completed; nullptr: nothing is recorded. Its ids are those of the thread where it began.
  Event* event() { return event_.get(); }
  void drop() { event_.reset(); }

 private:
  void begin(Type type, std::string_view name);
  void end() noexcept;
  std::unique_ptr<Event> event_;
};

}  // namespace vesta::events
