// The key of an artifact in the store: everything that a compile's result depends on, as named fields, so that a miss
// can name the fields that differ. No pass reads a flag of ATen: flags decide what a trace records and what operators
// do in a run. The one flag that decides which kernels may exist, deterministic algorithms, is in Traced. Operators'
// schemas are covered by the graph, which has every argument in the schema's order.
#pragma once

#include "artifact/artifact.h"
#include "base/target.h"
#include "pipeline/pipeline.h"

namespace vesta::pipeline {

// `text`: the graph's text without labels and with every argument. Fields in order: graph, facts, options, target,
// generator, compiler, torch.
artifact::Key key_of(const std::string& text, const Traced& traced, const Options& options, const Target& target);
// The field "compiler": this build of Vesta.
const std::string& compiler();
// The name of the entry.
std::string name_of(const artifact::Key& key);

}  // namespace vesta::pipeline
