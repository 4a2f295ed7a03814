// The Plan: every choice that the compiler made for one graph, before there is any code. It can be printed.
#pragma once

#include <algorithm>

#include "base/memory_plan.h"
#include "base/target.h"
#include "graph/graph.h"
#include "loops/dag.h"

namespace vesta::schedule {

enum class BufferRole : uint8_t {
  Input,      // graph input `input`
  Output,     // allocated for the caller, with the eager strides of graph output `output`
  Arena,      // lives from its first to its last step, at an offset of the arena
  Returned,   // a tensor that an extern call returns, or that is allocated for a kernel; freed after its last step
  Prepacked,  // computed once per version of its Parameters (folded, packed or converted weights), then kept
};

struct Buffer {
  BufferRole role = BufferRole::Arena;
  graph::TensorType type;  // dense strides for Arena; eager's for the others
  int input = -1;
  int output = -1;
  int first_step = -1;  // lifetime, as indices into Plan::steps
  int last_step = -1;
  // For Arena: lay_out_arena() computes the offset from the sizes' hints, and the runtime computes it again for other
  // sizes.
};

// A strided window on a buffer; `offset` in elements from the buffer's first element.
struct BufferView {
  int buffer = -1;  // -1: an undefined tensor
  std::vector<Expr> sizes;
  std::vector<Expr> strides;
  Expr offset;
  DType dtype = DType::F32;
};

struct KernelArg {
  int buffer = -1;
  // Elements of the buffer's dtype that are added to its pointer. With KernelBuffer::value, the one element of a buffer
  // in the CPU's memory is the argument.
  Expr offset;
};

struct KernelStep {
  std::shared_ptr<const loops::Kernel> kernel;
  std::shared_ptr<const loops::Dag> dag;  // the dag of which the kernel is a schedule, where Options ask for it
  std::string text;                       // print(*kernel): identity
  std::vector<KernelArg> args;            // one per kernel buffer
  std::vector<Expr> sizes;                // one per kernel size symbol, over the graph's symbols
  Expr items;                             // over the graph's symbols
  Expr scratch;                           // bytes per thread
  Expr item_cost;                         // estimated nanoseconds of one work item, for splitting over threads
  int64_t estimated_bytes = 0;            // for the sizes' hints
  double estimated_us = 0;
  int64_t flops = 0;                  // of its matrix products, for the sizes' hints
  std::vector<std::string_view> ops;  // the ATen ops fused here, in order; the names are those of the op table
  std::vector<uint32_t> values;       // ids of the graph's values that these ops give
};

// An argument of an extern call: data, or views of buffers.
struct ViewList {
  std::vector<BufferView> views;  // buffer -1 for None
};
using ExternArg = std::variant<graph::Arg, BufferView, ViewList>;

struct ExternStep {
  const graph::Op* op = nullptr;
  std::vector<ExternArg> args;  // graph::Arg never holds a Value here
  // One buffer per result; -1: ignored or undefined. Its role is Returned, Prepacked or Output (the result is moved
  // there).
  std::vector<int> results;
  std::string reason;  // why it is not fused: "no lowering", "library op", ...
  std::string source;
};

// inputs[input].copy_(value), after all other steps.
struct CopyStep {
  BufferView from;
  int input = -1;
};

// Raises `message` if the bool in `flag` is false.
struct AssertStep {
  int flag = -1;  // buffer of one element, in the CPU's memory
  std::string message;
};

using Step = std::variant<KernelStep, ExternStep, AssertStep, CopyStep>;

// Calls f(buffer) for each buffer that the step reads or writes.
template <class F>
void for_each_buffer(const Step& step, F&& f) {
  const auto view = [&](const BufferView& v) {
    if (v.buffer >= 0) f(v.buffer);
  };
  if (const auto* k = std::get_if<KernelStep>(&step)) {
    for (const KernelArg& a : k->args) f(a.buffer);
  } else if (const auto* e = std::get_if<ExternStep>(&step)) {
    for (const ExternArg& a : e->args) {
      if (const auto* v = std::get_if<BufferView>(&a)) view(*v);
      if (const auto* list = std::get_if<ViewList>(&a)) std::for_each(list->views.begin(), list->views.end(), view);
    }
    for (const int r : e->results)
      if (r >= 0) f(r);
  } else if (const auto* a = std::get_if<AssertStep>(&step)) {
    f(a->flag);
  } else {
    view(std::get<CopyStep>(step).from);
  }
}

struct Plan {
  std::vector<Buffer> buffers;
  std::vector<Step> prepacked;  // steps that compute Prepacked buffers, run when a Parameter they read changes
  std::vector<Step> steps;
  // For each output of the graph that is Fresh: where it is when the run has ended, in a buffer of role Output (whole)
  // or in another buffer whose tensor has exactly its type. Other outputs are made of these and of inputs and have no
  // buffer.
  std::vector<BufferView> outputs;
  ArenaLayout arena;  // for the sizes' hints
  // The device of the kernels and the arena. Without these, the device of the first tensor on a GPU; otherwise the CPU.
  Device device;
};

struct Options {
  Target target;
  bool fuse = true;            // false: one kernel per node
  bool rounds = false;         // every half-precision value is rounded, as in eager
  bool deterministic = false;  // no atomic additions of floats, whose order would change the last bits
  bool recorded = false;  // runs are recorded into CUDA graphs, whose calls make their results at fixed addresses; each
                          // run copies those that are outputs
  bool keep_dags = false;
  std::string why_no_kernels;  // if not empty, every node is an extern call for this reason
};

// An estimate of the memory that make_plan() takes for a graph, and of what its plan holds, in bytes.
struct PlanMemory {
  int64_t peak = 0;
  int64_t kept = 0;
};
PlanMemory plan_memory(const graph::Graph& graph);

// Groups nodes, orders groups, schedules kernels and lays out memory. The graph must outlive the plan.
Plan make_plan(const graph::Graph& graph, const Options& options);

std::string print(const Plan& plan);

}  // namespace vesta::schedule
