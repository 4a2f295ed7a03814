// Decides which steps of a program go into CUDA graphs, and what that means for their memory. It needs no GPU.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "artifact/artifact.h"
#include "runtime/resolve.h"

namespace vesta::runtime {

// Whether a graph depends on the address of a buffer that is not in the arena.
enum class Address : uint8_t {
  Any,    // only our kernels use it: their nodes get the address of each run
  Fixed,  // an extern call in a graph reads it: the graph serves only runs with the same address
  Own,    // an extern call in a graph makes it: it is in the recording's memory
  Given,  // the same of outputs that recur (Artifact::outputs_recur): each run allocates it first, and the graph serves
          // only runs with the same address
};

struct GraphPlan {
  struct Range {
    int begin = 0, end = 0;  // steps
  };
  std::vector<Range> graphs;
  int last_calls = 0;               // from this step on, calls write large results into memory that the run allocates
  std::vector<std::string> direct;  // by step, the reason why it runs beside the graphs; empty: it is in one
  std::vector<Address> addresses;   // by buffer
  std::vector<int> given;           // buffers with an address that is Given
  bool gives_memory = false;        // each run allocates what the graphs work in, too (WorkMemory)
  std::string why_none;             // the reason why there are no graphs; empty: there are some
};

// Facts that are learned from earlier captures and runs.
struct GraphFacts {
  std::map<int, std::string> refused;  // steps at which a capture failed, with the message
  std::set<int> changing;  // buffers with another address at every run: no extern call in a graph may read them
  bool recur = true;       // outputs do get the same addresses again
};

// Plans the first `count` steps; the steps after them are copies to inputs. `device`: the device of the kernels and the
// arena.
GraphPlan plan_graphs(const artifact::Artifact& artifact, int count, const Resolved& sizes, Device device,
                      const GraphFacts& facts);

// The reason why no graph may contain this step; empty: a graph may.
std::string why_direct(const artifact::Artifact& artifact, const artifact::Step& step, Device device);

}  // namespace vesta::runtime
