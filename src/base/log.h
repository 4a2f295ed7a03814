// Logs by topic: VESTA_LOG=stages,graph,plan,kernels,fallbacks (or "all"), to stderr or to the file $VESTA_LOG_FILE.
// Warnings are always shown, each text once per process; VESTA_LOG=quiet hides them. Logging never throws.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace vesta::log {

enum class Topic : uint8_t { Stages, Graph, Plan, Kernels, Fallbacks };

bool enabled(Topic topic);
// Writes one message in one piece, if the topic is enabled. A message may have several lines.
void write(Topic topic, std::string_view message);
// Shows the message unless the same text was shown before.
void warn_once(const std::string& message);

template <class... Args>
void print(Topic topic, fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(topic)) write(topic, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace vesta::log
