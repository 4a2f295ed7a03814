#include "base/log.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <unordered_set>

#include "base/split.h"

namespace vesta::log {

namespace {

constexpr std::array<std::string_view, 5> kTopics = {"stages", "graph", "plan", "kernels", "fallbacks"};
constexpr uint32_t kQuiet = 1u << 31;

struct Topics {
  uint32_t mask = 0;
  std::string unknown;  // the first word that is no topic; valid topics are turned on all the same
};

Topics parse_topics(std::string_view text) {
  Topics out;
  for (const std::string_view word : split(text, ',')) {
    if (word == "all") {
      out.mask |= (1u << kTopics.size()) - 1;
    } else if (word == "quiet") {
      out.mask |= kQuiet;
    } else if (auto it = std::find(kTopics.begin(), kTopics.end(), word); it != kTopics.end()) {
      out.mask |= 1u << (it - kTopics.begin());
    } else if (out.unknown.empty()) {
      out.unknown = word;
    }
  }
  return out;
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
    const char* text = std::getenv("VESTA_LOG");
    const Topics topics = parse_topics(text ? text : "");
    mask = topics.mask;
    // A bad environment variable must not end the process.
    if (!topics.unknown.empty())
      fmt::print(stderr,
                 "vesta: VESTA_LOG: unknown log topic \"{}\"; the topics are stages, graph, plan, kernels, fallbacks, "
                 "all and quiet\n",
                 topics.unknown);
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

void write(Topic topic, std::string_view message) {
  if (enabled(topic)) emit(kTopics[static_cast<size_t>(topic)], message);
}

void warn_once(const std::string& message) {
  if (state().mask.load(std::memory_order_relaxed) & kQuiet) return;
  {
    std::lock_guard lock(state().mutex);
    if (!state().warned.insert(message).second) return;
  }
  emit("warning", message);
}

}  // namespace vesta::log
