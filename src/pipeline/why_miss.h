// Says why a graph was compiled although others are stored: the fields in which its key differs from the nearest one.
// Reads the store and changes nothing in it.
#pragma once

#include <filesystem>

#include "artifact/artifact.h"
#include "vesta/report.h"

namespace vesta::pipeline {

struct KeyDifference {
  std::string field;     // "graph", "options", ...
  std::string was, now;  // the parts that differ; for a graph the first line that differs
  std::string line;      // of the program, for a graph: "model.py:3"
};

// Compares field by field. `lines`: the source lines of the program of `now`. Empty: the keys are equal.
std::vector<KeyDifference> differences(const artifact::Key& was, const artifact::Key& now,
                                       const std::vector<std::string>& lines = {});

struct NearestEntry {
  std::string entry;
  std::vector<KeyDifference> differences;
};
// The artifact with the fewest differing fields among the most recently used of a folder (at most 256 are read); among
// equals, the graph with the longest common beginning. nullopt: there is no other. Throws UserError as store::list()
// does.
std::optional<NearestEntry> nearest(const std::filesystem::path& folder, const CacheKey& key);

// The key of a stored artifact, by its entry's full name or a unique beginning of it. Throws UserError if no entry or
// several match.
artifact::Key key_of_entry(const std::filesystem::path& folder, const std::string& name);

}  // namespace vesta::pipeline
