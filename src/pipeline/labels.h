// Labels are the names of inputs, the source lines of a program and the indices of devices. A compile does not depend
// on them: they are taken out of the graph before, so that equal graphs give equal artifacts, and are put back into all
// texts that users see. Eight processes with a GPU each share one stored artifact: devices of one type are numbered in
// the order in which the graph names them, and an artifact gets the indices of this process when it is loaded.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "artifact/artifact.h"
#include "graph/graph.h"

namespace vesta::pipeline {

class Labels {
 public:
  // Replaces names and lines in the graph by "<input 3>" and "<line 17>", the index of a device by its place in the
  // order, and numbers the graph's values in order.
  static Labels take(graph::Graph& graph);
  // The text with every "<input 3>" and "<line 17>" replaced by its label.
  std::string restore(std::string_view text) const;
  const std::vector<std::string>& lines() const { return lines_; }
  // Does so in every text of an artifact that a user sees, and binds its devices.
  void restore(artifact::Artifact& artifact) const;

 private:
  void restore_texts(artifact::Artifact& artifact) const;
  void take_index(Device& device);
  void bind(Device& device) const;

  std::vector<Device> devices_;  // by the order in which the graph names them
  std::vector<std::string> inputs_, lines_;
};

}  // namespace vesta::pipeline
