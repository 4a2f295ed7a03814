// Which steps of a program go into CUDA graphs, and what that means for the memory they use. Needs no GPU.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "artifact/artifact.h"
#include "runtime/resolve.h"

namespace vesta::runtime {

// Whose address a graph holds, of a buffer that is not in the arena.
enum class Address : uint8_t {
  Any,    // kernels of ours alone use it: their nodes are given the address of each run
  Fixed,  // an extern call in a graph reads it: the graph serves runs with the same address
  Own,    // an extern call in a graph makes it: it lies in the recording's memory
};

struct GraphPlan {
  struct Range {
    int begin = 0, end = 0;  // steps
  };
  std::vector<Range> graphs;
  std::vector<std::string> direct;  // by step, why it runs beside the graphs; empty: it is in one
  std::vector<Address> addresses;   // by buffer
  std::string why_none;             // where there are no graphs
};

// What is known besides the program.
struct GraphFacts {
  std::map<int, std::string> refused;  // steps that a capture failed at, and its message
  std::set<int> changing;  // buffers whose address is another at every run: no extern call in a graph reads them
};

// Of the first `count` steps; those behind are copies to inputs. `device`: of the kernels and the arena.
GraphPlan plan_graphs(const artifact::Artifact& artifact, int count, const Resolved& sizes, Device device,
                      const GraphFacts& facts);

// Why no graph may hold this step; empty: one may.
std::string why_direct(const artifact::Artifact& artifact, const artifact::Step& step, Device device);

}  // namespace vesta::runtime
