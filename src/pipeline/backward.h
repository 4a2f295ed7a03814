// The compiles of backward halves: one for each set of tangents that backward passes bring.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/backward.h"
#include "graph/joint.h"
#include "pipeline/background.h"
#include "pipeline/half_segments.h"
#include "runtime/differentiable.h"

namespace vesta::pipeline {

// The compiles of a segment of a backward half. Starts one at once, if it is known which tangents are likely, and the
// others when they are asked for. Thread-safe.
class BackwardCompiles {
 public:
  using States = std::vector<TangentState>;
  // `likely`: by tangent; empty: unknown.
  BackwardCompiles(std::shared_ptr<HalfSegments> half, int segment, const States& likely, const Options& options,
                   Traced facts);

  // Waits for the compile as long as the options allow, and starts it if it is the first for these states. nullptr: the
  // compile goes on in the background, or has failed. With Options::strict it throws what the compile threw.
  std::shared_ptr<const runtime::Executable> get(std::span<const TangentState> states);
  // The gradients by calls of the operators of the graph; undefined tensors where a gradient is undefined.
  std::vector<at::Tensor> by_operators(std::span<const TangentState> states, std::span<const at::Tensor> inputs,
                                       std::span<const int64_t> sizes) const;
  // A run failed with the exception that is being handled, which is in failures() from now on. With Options::strict it
  // throws the exception on.
  void run_failed(std::span<const TangentState> states);
  // Whether the compiles that have been started are done. Waits until `end` for them.
  bool wait_until(Background::Clock::time_point end) const;
  // Of the compiles that are done and have been used or waited for.
  std::vector<CompileReport> reports() const;
  std::vector<std::string> failures() const;  // why compiles failed, and runs

 private:
  struct Variant {
    std::shared_ptr<Background> pending;
    std::shared_ptr<const runtime::Executable> executable;
    CompileReport report;
    std::exception_ptr error;
    std::string why;        // it failed
    std::string run_error;  // the message of the last failed run
    bool is_late = false;   // a pass has waited for it, and no other one will
  };
  Variant& start(const States& states, std::unique_ptr<graph::Graph> graph);

  const std::shared_ptr<HalfSegments> half_;
  const int segment_;
  const Options options_;
  const Traced facts_;
  mutable std::mutex mutex_;
  std::map<States, std::unique_ptr<Variant>> variants_;
};

// The sizes of buckets, in bytes, in which gradients are sent to other processes.
struct Buckets {
  int64_t first = 0, other = 0;  // 0: there are none
};

// A program and its backward pass as they were traced.
struct JointProgram {
  std::unique_ptr<graph::Graph> graph;
  graph::Joint joint;
  std::vector<int> unseen_writes;  // trace::Traced::unseen_writes
  Buckets buckets = {};            // if there are any, each backward half is divided into segments of their sizes
};

// Does on a thread of its own what a program with gradients needs: chooses what is saved, splits the joint graph,
// starts the compiles of the backward halves, and compiles the forward half. Waits for the forward half as
// start_compile() does. `facts`: of the joint graph.
std::shared_ptr<Background> start_training(JointProgram program, const Options& options, Traced facts,
                                           Background::Clock::time_point end);

}  // namespace vesta::pipeline
