// What a graph has of one program and a compile does not depend on: the names of inputs and the lines of source. They
// are taken out before a compile, so that equal graphs give equal artifacts, and put back into what is shown.
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
  // The text with names and lines in the place of their numbers.
  std::string restore(std::string_view text) const;
  // In every text of an artifact that a user sees.
  void restore(artifact::Artifact& artifact) const;

 private:
  std::vector<std::string> inputs_, lines_;
};

}  // namespace vesta::pipeline
