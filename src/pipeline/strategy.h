// Chooses for one graph whether it is compiled to machine code, run as calls into ATen, or left to the program itself
// (Options::strategy "auto"), by what each is predicted to cost over the expected number of calls.
//
// The prediction is a sum over operators. A call into ATen takes a fixed time, and the time to move its bytes or to
// compute its products. The program itself takes more for each operator, and for each Python function that the graph
// replaced. Kernels take what the planner estimates. A compile takes a time for each distinct kernel, by the length of
// its text. Each of these is a number in MachineCosts.
#pragma once

#include "graph/graph.h"
#include "schedule/plan.h"
#include "vesta/error.h"
#include "vesta/report.h"

namespace vesta::pipeline {

// Of this machine, in microseconds unless the name says something else. The built-in values are those of a server CPU;
// python/vesta/machine_costs.py measures better ones.
struct MachineCosts {
  double python_us = 1.5;  // what eager takes for an operator beside the call of it
  double frame_us = 1.5;   // and for a Python function
  double saved_us = 3.0;   // both for each operator of a model, before anything is known of the graph
  double call_us = 1.2;    // of a small call into ATen
  // What the smallest call of these kinds takes beyond call_us: a product and a convolution, each also with packed
  // weights, attention, a recurrent layer, an embedding bag, an index by tensors.
  double linear_us = 3, packed_linear_us = 3, attention_us = 12, convolution_us = 40, packed_convolution_us = 25;
  double recurrent_us = 60, bag_us = 8, index_us = 2;
  double entry_us = 1.0;  // of a call of a graph: guards, results
  double step_us = 0.2;   // of a kernel, beside what it computes
  // By what the planner's estimates are to be multiplied, of kernels without and with matrix products.
  double kernel_factor = 1.0, product_factor = 1.0;
  // Read and written by operators. By those of a graph whose inputs take more than the last cache: `memory_bytes_us`.
  double bytes_per_us = 20'000, memory_bytes_us = 10'000;
  double last_cache_bytes = 32e6;
  // Floating-point operations per microsecond: of products and convolutions as the program calls them, and as a plan
  // calls them with weights in the library's own order.
  double linear_flops_us = 50'000, packed_linear_flops_us = 60'000;
  double convolution_flops_us = 30'000, packed_convolution_flops_us = 60'000;
  double recurrent_flops_us = 15'000;  // and of recurrent layers, whose steps wait for each other
  // An eager convolution puts its weights into the library's order in each call: bytes of weights per microsecond.
  double convolution_weights_us = 5'000;
  double trace_us = 25;      // to trace an operator
  double plan_us = 5;        // to plan a node as a call
  double codegen_us = 8000;  // to compile a kernel, for each 1,000 bytes of its text
  double code_us = 400;      // to compile the kernels of an operator, before anything is known of the graph
};
MachineCosts machine_costs();
void set_machine_costs(const MachineCosts& costs);

// The program itself is predicted to be the best choice. The text says why.
struct NotWorthIt : Unsupported {
  using Unsupported::Unsupported;
};

class StrategyChoice {
 public:
  // `traced`: before any pass. `frames`: of Python functions that the graph replaces. `eager_us`: the measured time of
  // an eager call; 0: unknown. If it is less than the predicted time, it replaces that: eager runs a recurrent layer as
  // one operator, and the prediction adds up the hundreds of operators into which the trace decomposes it.
  StrategyChoice(const graph::Graph& traced, int64_t frames, double eager_us, int64_t expected_calls);
  // Whether machine code can be the choice, before it is planned.
  bool whole_may_pay() const;
  // After the plan (nullptr: machine code is no choice): which strategy is predicted to take the least time, with its
  // compile.
  StrategyReport choose(const schedule::Plan* whole);

 private:
  void predict(const schedule::Plan& whole);

  const MachineCosts costs_;
  StrategyReport report_;  // until predict(), whole_us and whole_ms are the least that they can be
};

// "predicted for 1000 calls: eager 12 us, calls into ATen 10 us after 0.2 ms, ..."
std::string to_string(const StrategyReport& report);

// Whether a trace of a function is predicted to be worth its time, by a call of the program itself, which took so long
// and ran so many operators.
bool may_gain(double call_us, int64_t operators, int64_t expected_calls);

}  // namespace vesta::pipeline
