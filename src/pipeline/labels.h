// Labels are the names of inputs, the source lines of a program and the indices of devices. A compile must not depend
// on them. They are removed from the graph before the compile, so that equal graphs give equal artifacts, and restored
// in every text that users see. Devices of one type are numbered in the order in which the graph names them, and a
// loaded artifact gets the indices of this process. So eight processes with one GPU each share one stored artifact.
#pragma once

#include "artifact/artifact.h"
#include "graph/graph.h"

namespace vesta::pipeline {

class Labels {
 public:
  // Replaces names and lines in the graph by "<input 3>" and "<line 17>", and device indices by their order of
  // appearance, and numbers the graph's values in order.
  static Labels take(graph::Graph& graph);
  // The text with every "<input 3>" and "<line 17>" replaced by its label.
  std::string restore(std::string_view text) const;
  const std::vector<std::string>& lines() const { return lines_; }
  bool same_line(std::string_view a,
                 std::string_view b) const;  // whether both stand for equal lines, or both are empty
  // Restores the labels in every text of an artifact that users see, and binds its devices.
  void restore(artifact::Artifact& artifact) const;

 private:
  const std::string* line(std::string_view text) const;
  void restore_texts(artifact::Artifact& artifact) const;
  void take_index(Device& device);
  void bind(Device& device) const;

  std::vector<Device> devices_;  // in the order in which the graph names them
  std::vector<std::string> inputs_, lines_;
};

}  // namespace vesta::pipeline
