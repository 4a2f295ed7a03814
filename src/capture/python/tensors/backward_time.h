// How long autograd takes for the backward pass of a call.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

namespace vesta::capture {

// The first pass through the nodes that a call has made: from the first of them that autograd runs to the last one,
// with the gradients that this one gives to leaves. Hooks on the nodes own it, too: once nothing else does, no pass
// will come. Times are in microseconds, on a clock that only goes forward. Threads may share it.
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
  // nullopt: the pass has not finished, or has run none of the nodes that may be the last one.
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
