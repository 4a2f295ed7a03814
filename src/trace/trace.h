// Tracing: runs a program on traced tensors, which look like real tensors to all of PyTorch, and records a graph.
//
// Traced tensors carry the trace's dispatch key (operators/dispatch_key.h), below the autograd and autocast keys and
// above every backend. One boxed fallback records each operator. Autograd keys are excluded while tracing, so composite
// operators of the op table arrive whole and all others decompose by ATen's own kernels. A real tensor that the program
// uses (a captured weight, a constant) is lifted: it becomes a graph input of kind Parameter. Mutation and views are
// functionalized while recording (tensors/alias.h).
//
// Guarantees that a failed trace changes nothing. Thread-safe: each trace has its own recorder, found through
// thread-local state, and two threads may trace at once.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "base/compile_memory.h"
#include "graph/graph.h"
#include "graph/joint.h"
#include "trace/tensors/view_relation.h"
#include "vesta/error.h"

namespace vesta::trace {

struct TraceInput {
  c10::IValue value;  // a Tensor (strided, on a device that Vesta compiles for) or an int
  graph::InputKind kind = graph::InputKind::Argument;
  std::string name;
  // Per dimension (one entry for an int): whether to make it symbolic. Sizes 0 and 1 and integers below 2 stay
  // constants all the same. The caller that reuses the graph checks that constant integers are equal and symbolic ones
  // at least 2.
  std::vector<bool> dynamic;
  // Dimensions with equal non-negative labels share one symbol (for example a symbol of torch's). -1: dimensions with
  // equal hints share one.
  std::vector<int> symbol_label;
};

struct TraceOptions {
  // Tensors may require gradients while gradient mode is on, and the graph gets the backward pass. Without this option
  // such a program is refused by NeedsGradients.
  bool gradients = false;
  // The line of the program that is running, "model.py:17", shown to users with nodes. May be empty.
  std::function<std::string()> line;
  // A number of the caller's for the place where the program is, which GradientNotTraced gives back. May be empty.
  std::function<int()> place;
  // The trace throws DeadlinePassed at the first operator after this time.
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max();
  // The trace throws GraphMemoryPassed when the graphs of the process do not fit into this budget.
  int64_t memory = std::numeric_limits<int64_t>::max();
};

struct DeadlinePassed : Unsupported {
  explicit DeadlinePassed(int64_t operators);
  int64_t operators;  // recorded until then, those of the backward pass included
};

struct GraphMemoryPassed : OverBudget {
  explicit GraphMemoryPassed(const std::string& why);
  std::string why;
};

struct NeedsGradients : Unsupported {
  using Unsupported::Unsupported;
};

// The derivative of an operator cannot be traced: its formula needs a value, for example. A program that ends before
// this operator can be traced.
struct GradientNotTraced : Unsupported {
  GradientNotTraced(std::string op, std::string why, int place);
  std::string op, why;
  int place;  // TraceOptions::place when the operator ran; negative: unknown
};

struct Traced {
  std::unique_ptr<graph::Graph> graph;  // inputs: the tensors among the TraceInputs in order, then `lifted`
  std::vector<at::Tensor> lifted;
  std::vector<at::Tensor> inputs;  // the real tensor of every input of the graph
  int64_t op_count = 0;            // operators recorded
  bool in_grad_mode =
      false;  // operators were recorded while gradient mode was on, so it matters which inputs require grad
  std::optional<graph::Joint> joint;  // in a trace with gradients: where the graph has the backward pass

  // Inputs in graph->mutations that the program writes by their .data alone: their version counters stay as they are.
  std::vector<int> unseen_writes;

  // Relations between the graph's outputs that the outputs themselves do not express.
  std::vector<ViewRelation> views;

  // Facts that a later call must repeat for the graph to serve it, besides types, sizes and the graph's guards. Indices
  // are the graph's inputs.
  //   - inputs are one tensor object exactly where these groups say so (each input is in at most one group);
  //   - an input in graph->mutations shares no memory with another input outside its group;
  //   - storage_offset() of the named input is the named value: the program addressed its storage absolutely.
  std::vector<std::vector<int>> same_inputs;
  std::vector<std::pair<int, int64_t>> storage_offsets;
  //   - these inputs, and no others, have pending conj or neg bits. Their values in the graph are the contents of
  //     memory.
  std::vector<std::pair<int, ConjNegBits>> conj_neg;
};

// Takes fake tensors and gives results: each is a Tensor, SymInt, int, or None.
using Program = std::function<std::vector<c10::IValue>(const std::vector<c10::IValue>&)>;

// Throws NeedsValue, GradientNotTraced, Unsupported, UserError (arguments that eager refuses too, in eager's own words)
// or what `program` throws. Then no input was written and no generator advanced.
Traced trace(const std::vector<TraceInput>& inputs, const Program& program, const TraceOptions& options = {});

// For a program that finds its inputs while it runs: adds one more input to the calling thread's trace and returns its
// fake tensor or symbolic integer. Integers are numbered in the order in which they are added.
c10::IValue add_input(const TraceInput& input);

// Reads the number of a 0-d tensor whose value is not that number (vesta/detail/function.h).
using NumberReader = std::optional<c10::Scalar> (*)(const at::Tensor&);
void set_number_reader(NumberReader reader);

// Whether the calling thread traces.
bool is_tracing();

// Prepares what the first trace of a process needs: the dispatch key, for which torch goes through all its operators (3
// ms), and the op table. Runs once per process. Throws Unsupported as trace() does.
void prepare();

}  // namespace vesta::trace
