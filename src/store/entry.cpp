#include "store/entry.h"

#include "base/digest.h"

namespace vesta::store {

namespace {
constexpr std::string_view kMagic = "vesta entry 1\n";
constexpr size_t kDigestBytes = 32;
}  // namespace

std::string encode(std::string_view key, std::string_view content) {
  std::string file;
  file.reserve(kMagic.size() + kDigestBytes + content.size());
  file += kMagic;
  file += digest({key, content});
  file += content;
  return file;
}

std::optional<std::string> decode(std::string_view key, std::string_view file) {
  if (!file.starts_with(kMagic) || file.size() < kMagic.size() + kDigestBytes) return std::nullopt;
  const std::string_view content = file.substr(kMagic.size() + kDigestBytes);
  if (file.substr(kMagic.size(), kDigestBytes) != digest({key, content})) return std::nullopt;
  return std::string(content);
}

}  // namespace vesta::store
