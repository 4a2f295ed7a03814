// Labels are the names of inputs and the source lines of a program. A compile does not depend on them: they are taken
// out of the graph before, so that equal graphs give equal artifacts, and are put back into all texts that users see.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "artifact/artifact.h"
#include "graph/graph.h"

namespace vesta::pipeline {

class Labels {
 public:
  // Replaces names and lines in the graph by "<input 3>" and "<line 17>", and numbers its values in order.
  static Labels take(graph::Graph& graph);
  // The text with every "<input 3>" and "<line 17>" replaced by its label.
  std::string restore(std::string_view text) const;
  const std::vector<std::string>& lines() const { return lines_; }
  // Does so in every text of an artifact that a user sees.
  void restore(artifact::Artifact& artifact) const;

 private:
  std::vector<std::string> inputs_, lines_;
};

}  // namespace vesta::pipeline
