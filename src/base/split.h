// Splits lists in texts: names of operators, topics, folders.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

namespace vesta {

// The parts of the text between separators, without the empty ones.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

}  // namespace vesta
