// By what an artifact is found in the store: everything that a compile's result depends on, field by field, so that a
// miss can say what differs.
#pragma once

#include <string>

#include "artifact/artifact.h"
#include "base/target.h"
#include "graph/graph.h"
#include "vesta/options.h"

namespace vesta::pipeline {

// `text`: of the graph without its labels, with every argument. Fields, in order: graph, facts, options, target,
// generator, compiler, torch.
artifact::Key key_of(const std::string& text, const artifact::InputFacts& facts, bool inference, const Options& options,
                     const Target& target);
// The name of the entry.
std::string name_of(const artifact::Key& key);

}  // namespace vesta::pipeline
