#include "pipeline/why_miss.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <tuple>

#include "artifact/bytes.h"
#include "base/check.h"
#include "store/store.h"

namespace vesta::pipeline {
namespace {

constexpr size_t kMostEntries = 256;
constexpr std::string_view kArtifact = "artifact_";

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find_first_of(separators, at), text.size());
    std::string_view part = text.substr(at, end - at);
    while (part.starts_with(' ')) part.remove_prefix(1);
    out.push_back(part);
    at = end + 1;
  }
  return out;
}

// The parts of `a` that are not in `b`.
std::string only_in(const std::vector<std::string_view>& a, const std::vector<std::string_view>& b) {
  std::vector<std::string_view> out;
  for (const std::string_view part : a)
    if (std::find(b.begin(), b.end(), part) == b.end()) out.push_back(part);
  return fmt::format("{}", fmt::join(out, ", "));
}

size_t equal_beginning(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

// The label of "<line 17>" in a line of a graph's text.
std::string line_of(std::string_view text, const std::vector<std::string>& lines) {
  constexpr std::string_view kMark = "<line ";
  const size_t at = text.find(kMark);
  size_t number = 0;
  if (at == std::string_view::npos) return {};
  std::from_chars(text.data() + at + kMark.size(), text.data() + text.size(), number);
  return number < lines.size() ? lines[number] : std::string();
}

KeyDifference graph_difference(std::string_view was, std::string_view now, const std::vector<std::string>& lines) {
  const auto a = split(was, "\n"), b = split(now, "\n");
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const std::string_view old = x == a.end() ? "nothing more" : *x, fresh = y == b.end() ? "nothing more" : *y;
  return {"graph", std::string(old), std::string(fresh), line_of(fresh, lines)};
}

std::optional<artifact::Key> read_key(const std::filesystem::path& folder, const std::string& entry) {
  const auto bytes = store::read(folder, entry);
  if (!bytes) return std::nullopt;
  try {
    return artifact::decode(*bytes).about.key;
  } catch (const InternalError&) {
    return std::nullopt;  // another version or damaged: no compile could have used it
  }
}

}  // namespace

std::vector<KeyDifference> differences(const artifact::Key& was, const artifact::Key& now,
                                       const std::vector<std::string>& lines) {
  std::vector<KeyDifference> out;
  for (const auto& [name, value] : now) {
    const auto old = std::find_if(was.begin(), was.end(), [&](const auto& f) { return f.first == name; });
    const std::string_view before = old == was.end() ? std::string_view() : old->second;
    if (before == value) continue;
    if (name == "graph") {
      out.push_back(graph_difference(before, value, lines));
    } else {
      const auto a = split(before, ",;"), b = split(value, ",;");
      out.push_back({name, only_in(a, b), only_in(b, a), ""});
    }
  }
  return out;
}

std::optional<NearestEntry> nearest(const std::filesystem::path& folder, const CacheKey& key) {
  std::optional<NearestEntry> best;
  std::tuple<size_t, size_t> best_rank;
  size_t seen = 0;
  const auto graph_of = [](const artifact::Key& k) { return k.empty() ? std::string_view() : k.front().second; };
  for (const store::Listed& e : store::list(folder, false)) {
    if (!e.key.starts_with(kArtifact) || e.key == key.entry) continue;
    if (++seen > kMostEntries) break;
    const auto other = read_key(folder, e.key);
    if (!other) continue;
    auto found = differences(*other, key.fields, key.lines);
    const std::tuple rank(found.size(),
                          graph_of(key.fields).size() - equal_beginning(graph_of(key.fields), graph_of(*other)));
    if (best && best_rank <= rank) continue;
    best = {e.key, std::move(found)};
    best_rank = rank;
  }
  return best;
}

artifact::Key key_of_entry(const std::filesystem::path& folder, const std::string& name) {
  std::vector<std::string> found;
  for (const store::Listed& e : store::list(folder, false))
    if (e.key.starts_with(kArtifact) && (e.key.starts_with(name) || e.key.substr(kArtifact.size()).starts_with(name)))
      found.push_back(e.key);
  VESTA_USER_CHECK(!found.empty(), "the cache {} has no artifact {}", folder.string(), name);
  VESTA_USER_CHECK(found.size() == 1, "several artifacts of the cache {} begin with {}: {}", folder.string(), name,
                   fmt::join(found, ", "));
  auto key = read_key(folder, found[0]);
  VESTA_USER_CHECK(key, "{} cannot be read: it is damaged, or of another version", found[0]);
  return *key;
}

}  // namespace vesta::pipeline
