// Makes the artifact of a plan and its kernels' code. Decides nothing: the plan has every choice.
#pragma once

#include "artifact/artifact.h"
#include "graph/graph.h"
#include "schedule/plan.h"

namespace vesta::pipeline {

using ObjectByText = std::map<std::string, std::shared_ptr<const machine::Object>, std::less<>>;

artifact::Artifact assemble(const graph::Graph& graph, const schedule::Plan& plan, const ObjectByText& objects);

}  // namespace vesta::pipeline
