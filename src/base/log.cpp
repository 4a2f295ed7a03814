#include "base/log.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <unordered_set>

#include "base/check.h"

namespace vesta::log {

namespace {

constexpr std::array<std::string_view, 5> kTopics = {"stages", "graph", "plan", "kernels", "fallbacks"};
constexpr uint32_t kQuiet = 1u << 31;

uint32_t parse_topics(std::string_view text) {
  uint32_t mask = 0;
  while (!text.empty()) {
    size_t comma = text.find(',');
    std::string_view word = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    if (word.empty()) continue;
    if (word == "all") {
      mask |= (1u << kTopics.size()) - 1;
    } else if (word == "quiet") {
      mask |= kQuiet;
    } else {
      size_t i = 0;
      while (i < kTopics.size() && kTopics[i] != word) ++i;
      VESTA_USER_CHECK(i < kTopics.size(),
                       "unknown log topic \"{}\"; known: stages graph plan kernels fallbacks all quiet", word);
      mask |= 1u << i;
    }
  }
  return mask;
}

struct State {
  std::atomic<uint32_t> mask{0};
  std::mutex mutex;
  std::FILE* out = stderr;
  std::unordered_set<std::string> warned;

  State() {
    if (const char* path = std::getenv("VESTA_LOG_FILE"); path && *path) {
      if (std::FILE* f = std::fopen(path, "a")) out = f;
    }
    const char* topics = std::getenv("VESTA_LOG");
    try {
      mask = parse_topics(topics ? topics : "");
    } catch (const UserError& e) {
      // A bad environment variable must not end the process.
      std::fprintf(stderr, "vesta: VESTA_LOG: %s\n", e.what());
    }
  }
};

State& state() {
  static State* s = new State;  // never destroyed: threads may log while the process ends
  return *s;
}

void emit(std::string_view tag, std::string_view message) {
  std::string text = fmt::format("[vesta {}] {}{}", tag, message, message.ends_with('\n') ? "" : "\n");
  std::lock_guard lock(state().mutex);
  std::fwrite(text.data(), 1, text.size(), state().out);
  std::fflush(state().out);
}

}  // namespace

bool enabled(Topic topic) { return state().mask.load(std::memory_order_relaxed) & (1u << static_cast<int>(topic)); }

void write(Topic topic, std::string_view message) { emit(kTopics[static_cast<size_t>(topic)], message); }

void warn_once(const std::string& message) {
  if (state().mask.load(std::memory_order_relaxed) & kQuiet) return;
  {
    std::lock_guard lock(state().mutex);
    if (!state().warned.insert(message).second) return;
  }
  emit("warning", message);
}

void set_topics(std::string_view comma_separated) { state().mask = parse_topics(comma_separated); }

}  // namespace vesta::log
