// Makes the artifact of a plan and its kernels' code, and names kernels. Decides nothing: the plan has every choice.
#pragma once

#include "artifact/artifact.h"
#include "graph/graph.h"
#include "schedule/plan.h"

namespace vesta::pipeline {

using ObjectByText = std::map<std::string, std::shared_ptr<const machine::Object>, std::less<>>;

artifact::Artifact assemble(const graph::Graph& graph, const schedule::Plan& plan, const ObjectByText& objects);

// The name of a kernel in dumps, reports and profilers, for people: "layer_norm_add" for "aten::layer_norm" and
// "aten::add.Tensor". No operator is appended once the name has 60 characters.
std::string kernel_name(std::span<const std::string_view> ops);

}  // namespace vesta::pipeline
