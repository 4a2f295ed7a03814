// Tracing: runs a program on traced tensors, which look to all of PyTorch like real ones, and records the graph.
//
// Traced tensors carry DispatchKey::Fake under the autograd and autocast keys and above every backend; one boxed
// fallback records each operator. Autograd keys are excluded while tracing, so that composite operators of the op table
// arrive whole and all others decompose by ATen's own kernels.
// A real tensor met on the way (a captured weight, a constant) is lifted: it becomes a graph input of kind Parameter.
// Mutation and views are functionalised while recording (functionalize.h).
// Thread-safe: each trace is its own recorder, found through thread-local state; two threads may trace at once.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "trace/gradients/tape.h"
#include "trace/tensors/view_relation.h"
#include "vesta/error.h"

namespace vesta::trace {

struct TraceInput {
  c10::IValue value;  // a Tensor (strided, on a device Vesta compiles for) or an int
  graph::InputKind kind = graph::InputKind::Argument;
  std::string name;
  // Per dimension (or one entry for an int): make it symbolic. Sizes 0 and 1 and integers below 2 stay constants all
  // the same; whoever reuses the graph checks that constant integers are the same and symbolic ones at least 2.
  std::vector<bool> dynamic;
  // Dimensions with equal non-negative labels share one symbol (torch's own symbols, say); -1: equal hints share one.
  std::vector<int> symbol_label;
};

struct TraceOptions {
  // Tensors may require gradients while gradient mode is on. The graph says what is computed, not what is
  // differentiated: that is on the tape. Without it such a program is refused, by NeedsGradients.
  bool gradients = false;
  // The line of the program that is being run, "model.py:17"; for what users see of nodes. May be empty.
  std::function<std::string()> line;
};

struct NeedsGradients : Unsupported {
  using Unsupported::Unsupported;
};

struct Traced {
  std::unique_ptr<graph::Graph> graph;  // inputs: the tensors among the TraceInputs in order, then `lifted`
  std::vector<at::Tensor> lifted;
  std::vector<at::Tensor> inputs;  // the real tensor of every input of the graph
  int64_t op_count = 0;            // operators recorded
  bool in_grad_mode = false;       // one of them while gradient mode was on: then it matters which inputs require grad
  std::unique_ptr<Tape> tape;      // in a trace with gradients

  // Of the graph's outputs: what the graph's own outputs do not say.
  std::vector<ViewRelation> views;

  // What a later call must repeat for the graph to serve it, beyond types, sizes and the graph's guards. Indices are
  // the graph's inputs.
  //   - inputs are one tensor object exactly where these groups say so (each input is in at most one group);
  //   - an input in graph->mutations shares no memory with another input outside its group;
  //   - storage_offset() of the named input is the named value: the program addressed its storage absolutely.
  std::vector<std::vector<int>> same_inputs;
  std::vector<std::pair<int, int64_t>> storage_offsets;
  //   - something is pending on these inputs, and on no other. The graph's values of them are what their memory holds.
  std::vector<std::pair<int, Pending>> pending;
};

// Stand-ins in, results out: Tensor, SymInt, int, or None each.
using Program = std::function<std::vector<c10::IValue>(const std::vector<c10::IValue>&)>;

// Throws NeedsValue, Unsupported, UserError (arguments that eager refuses too, in eager's own words) or what `program`
// throws; nothing was changed then: no input written, no generator advanced.
Traced trace(const std::vector<TraceInput>& inputs, const Program& program, const TraceOptions& options = {});

// For a program that finds its inputs while it runs: one more input of the calling thread's trace, and what stands for
// it there. Integers count in the order in which they were given.
c10::IValue add_input(const TraceInput& input);

// How to ask a 0-d tensor for the number it stands for where its value is not that number: vesta/detail/function.h.
using NumberReader = std::optional<c10::Scalar> (*)(const at::Tensor&);
void set_number_reader(NumberReader reader);

// True while the calling thread traces.
bool is_tracing();

// What the first trace of a process needs and is the same for all: the dispatch key, for which torch goes through all
// its operators (3 ms), and the op table. Once per process. Throws Unsupported as trace() does.
void prepare();

}  // namespace vesta::trace
