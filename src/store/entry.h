// The bytes of an entry's file: a header, then the content.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace vesta::store {

std::string encode(std::string_view key, std::string_view content);
// nullopt: the file belongs to another key or is damaged.
std::optional<std::string> decode(std::string_view key, std::string_view file);

}  // namespace vesta::store
