// How long autograd takes for the backward pass of a call.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

namespace vesta::capture {

// The time of the first backward pass through the autograd nodes that a call has made. It begins before the first of
// these nodes runs, and ends after the last one and after the leaves have its gradients. Hooks on the nodes share this
// object: if no hook is left, no pass will come. Times are in microseconds of a steady clock. Threads may share it.
class BackwardTime {
 public:
  // `pass`: the number of a pass of autograd. Whether this one is the first.
  bool begin(int pass, double us);
  // A node that may be the last one has run.
  void reach(int pass, double us);
  // The whole pass is over, also for nodes that the call has not made.
  void finish(int pass);

  bool has_begun() const;
  bool has_finished() const;
  // nullopt if the pass has not finished, or if it has run none of the nodes that could be the last one.
  std::optional<double> us() const;

 private:
  static constexpr int kNone = -1;

  mutable std::mutex mutex_;
  int pass_ = kNone;
  double begun_us_ = 0;
  std::optional<double> reached_us_;
  bool finished_ = false;
};

// The number of the next node that this thread adds to autograd's graph.
uint64_t next_node_number();

// Times the backward pass of a call that began when next_node_number() was `first`. `results`: objects that hold the
// results; tensors are found in them, in containers, and `in_attributes` of other objects. nullptr: the call has added
// no node for them. The graph is changed by hooks, which autograd's own code does not see, before anyone uses it.
std::shared_ptr<const BackwardTime> watch_backward(std::span<PyObject* const> results, bool in_attributes,
                                                   uint64_t first);

}  // namespace vesta::capture
