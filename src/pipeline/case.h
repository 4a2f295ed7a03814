// A compile as plain data and as text: everything that it takes to repeat it, without the program and its tensors.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/pipeline.h"

namespace vesta::pipeline {

// What a repeated run makes in place of a tensor of the program.
struct CaseInput {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> sizes, strides;
  Device device;
  int64_t alignment = 1;          // in bytes
  std::optional<int64_t> offset;  // of the first element in the storage, if the program depends on it
  int same_as = -1;               // an earlier input, which is the same tensor
  ConjNegBits conj_neg;
};

enum class Outcome : uint8_t { Unfinished, Compiled, Failed };

struct Case {
  std::string graph;  // graph::print, with names and lines of the program
  Options options;
  bool inference = true;
  bool deterministic = false;
  std::vector<CaseInput> inputs;
  std::vector<int64_t> integers;  // the call's integer arguments
  int64_t seed = 0;               // of the numbers in the inputs
  std::string target;             // that it was compiled for
  Outcome outcome = Outcome::Unfinished;
  std::string error_kind, error;  // "InternalError" and its text
  std::vector<StageTime> stages;
  double total_ms = 0;
};

// What a compile depends on besides its case, by name: "torch", "cpu".
using Versions = std::vector<std::pair<std::string, std::string>>;

struct CaseFile {
  Versions versions;
  std::vector<Case> cases;
};

Case make_case(const graph::Graph& graph, const Options& options, const Traced& traced, const Target& target);
// The graph and the facts as compile() takes them.
std::unique_ptr<graph::Graph> graph_of(const Case& c);
Traced traced_of(const Case& c);

// JSON, with a line for each statement of a graph.
std::string to_text(const Case& c);
std::string to_text(const Versions& versions, const std::vector<std::string>& cases);
// Throws UserError where the text is no such file.
CaseFile parse_cases(const std::string& text);

}  // namespace vesta::pipeline
