// Runs a graph by calling its ATen operators one by one, and compares a traced program with the program itself.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <vector>

#include "trace/trace.h"

namespace vesta::trace::test {

// The results as an entry point would hand them out; inputs are graph inputs (the program's tensors, then the lifted
// ones), and are written where the graph says so. Fails the running test when a node's result is not of the type the
// graph gives.
std::vector<c10::IValue> interpret(const graph::Graph& g, const std::vector<at::Tensor>& inputs,
                                   const std::vector<int64_t>& symbols);

using TensorProgram = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

struct Options {
  bool dynamic = false;  // every dimension symbolic
  uint64_t seed = 1;
};

// Traces, verifies, prints and parses the graph, runs it on clones of the inputs and expects eager's results, dtypes,
// strides, and the same final inputs. Returns the trace.
Traced check(const std::vector<at::Tensor>& inputs, const TensorProgram& program, const Options& options = {});
// The same graph served on other inputs.
void check_again(const Traced& traced, const std::vector<at::Tensor>& inputs, const TensorProgram& program);

std::vector<TraceInput> trace_inputs(const std::vector<at::Tensor>& inputs, bool dynamic = false);
Program boxed(const TensorProgram& program);
bool has_op(const Traced& t, std::string_view name);
std::string text(const Traced& t);

}  // namespace vesta::trace::test
