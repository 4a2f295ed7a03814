// The key of an artifact in the store: everything that the result of a compile depends on, as named fields, so that a
// miss can say which of them differ. No pass reads a flag of ATen's: flags decide what a trace records, and what the
// operators that a run calls do; the one that says which kernels there may be, deterministic algorithms, is in Traced.
// Schemas of operators are in the graph: it has every argument, in the schema's order.
#pragma once

#include <string>

#include "artifact/artifact.h"
#include "base/target.h"
#include "pipeline/pipeline.h"

namespace vesta::pipeline {

// `text` is the graph's, without labels and with every argument. The fields, in order: graph, facts, options, target,
// generator, compiler, torch.
artifact::Key key_of(const std::string& text, const Traced& traced, const Options& options, const Target& target);
// This build of the compiler, the last but one of them.
const std::string& compiler();
// The name of the entry.
std::string name_of(const artifact::Key& key);

}  // namespace vesta::pipeline
