// Why a graph was compiled although others are stored: the fields in which its key differs from the nearest one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "artifact/artifact.h"
#include "vesta/report.h"

namespace vesta::pipeline {

struct KeyDifference {
  std::string field;     // "graph", "options", ...
  std::string was, now;  // the parts that differ; of a graph its first line that does
  std::string line;      // of the program, for a graph: "model.py:3"
};

// Field by field; `lines`: of the program of `now`. Empty: they are equal.
std::vector<KeyDifference> differences(const artifact::Key& was, const artifact::Key& now,
                                       const std::vector<std::string>& lines = {});

struct NearestEntry {
  std::string entry;
  std::vector<KeyDifference> differences;
};
// Of the artifacts in a folder that were used last (at most 256 are read), the one with the fewest fields that differ;
// of graphs, the one with the longest equal beginning. nullopt: there is no other. Throws UserError as store::list().
std::optional<NearestEntry> nearest(const std::filesystem::path& folder, const CacheKey& key);

// The key of a stored artifact, by the whole name of its entry or a beginning of it that no other has. Throws UserError
// where there is none, or several.
artifact::Key key_of_entry(const std::filesystem::path& folder, const std::string& name);

}  // namespace vesta::pipeline
