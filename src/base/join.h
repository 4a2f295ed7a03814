// Joins the texts of a list's elements.
#pragma once

#include <string>
#include <string_view>

namespace vesta {

// text(element) of each element, with separators between them.
template <class List, class F>
std::string join(const List& list, F&& text, std::string_view separator = ", ") {
  std::string out;
  bool first = true;
  for (const auto& element : list) {
    if (!first) out += separator;
    out += text(element);
    first = false;
  }
  return out;
}

}  // namespace vesta
