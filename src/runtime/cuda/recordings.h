// The CUDA graphs of one program: when it is recorded, for which streams and addresses, and which recording a call
// uses.
//
// A thread's first call on a stream runs step by step; its second is recorded. Where an extern call in a graph reads an
// input whose address is another than before, the program is recorded for the new address too. If the address changes
// again, the input is copied from then on, if it is small; a large one is recorded for four addresses, and then the
// calls that read it run beside the graphs.
//
// Where memory is short, recordings of other programs go, then the call runs step by step and recording is tried again
// some calls later.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cuda/record.h"
#include "runtime/graph_options.h"
#include "vesta/report.h"

namespace vesta::runtime {

class Recordings {
 public:
  Recordings(const artifact::Artifact& artifact, const BoundProgram& program,
             std::span<const std::unique_ptr<Executable>> entries, c10::Device device, const GraphOptions& options);
  ~Recordings();
  Recordings(const Recordings&) = delete;

  // A run with a recording, or none: then it runs step by step.
  class Run {
   public:
    Run() = default;
    Run(Run&&) = default;
    Run& operator=(Run&&) = default;
    ~Run();
    Recording* recording() const { return recording_.get(); }

   private:
    friend class Recordings;
    explicit Run(std::shared_ptr<Recording> recording) : recording_(std::move(recording)) {}
    std::shared_ptr<Recording> recording_;  // whose stream this thread has entered
  };
  // For a call on the device's current stream. May record. Never throws for want of a recording.
  Run find(Sizes& sizes, const CallInputs& in, std::span<const at::Tensor> derived);

  GraphReport report() const;  // waits for nobody
  // Lets go of every recording, if no call is in the way.
  bool drop();
  // Memory is short: lets go of every recording of the process, but of those in use and while `device`'s current stream
  // is captured.
  static void drop_all(c10::Device device);
  int64_t last_use() const { return last_use_.load(std::memory_order_relaxed); }

 private:
  // Calls of one kind: on one stream, with the same sizes.
  struct Kind {
    ReplayStream* stream = nullptr;
    std::vector<int64_t> symbols;
    std::set<std::thread::id> ran_on;                    // threads of which a call ran step by step
    std::vector<std::shared_ptr<Recording>> recordings;  // the one that was used last comes first
    std::map<int, int> changes;                          // by buffer, how often its address was new
    std::set<int> copied;                                // inputs
    std::set<int> changing;                              // buffers
  };
  Kind& kind_of(ReplayStream& stream, const std::vector<int64_t>& symbols);
  std::shared_ptr<Recording> use(Kind& kind, Sizes& sizes, const CallInputs& in, std::span<const at::Tensor> derived);
  std::shared_ptr<Recording> make(Kind& kind, Sizes& sizes, const CallInputs& in, std::span<const at::Tensor> derived);
  // Takes in that these buffers have other addresses than in any recording.
  void widen(Kind& kind, const std::set<int>& other, const CallInputs& in);
  bool may_copy(int buffer, const CallInputs& in) const;
  // False: there is no room, even without the recordings of others.
  bool make_room(int64_t bytes);
  // The recordings of other programs, those first that were not used for longest, until all hold at most this.
  void drop_others(int64_t bytes);
  void refuse(std::string why);
  // Memory was short: the next recording is tried after some calls that would need one, twice as many each time.
  void wait();

  const RecordedProgram what_;
  const c10::Device device_;
  const GraphOptions options_;
  std::atomic<bool> refused_{false};
  std::atomic<int64_t> last_use_{0};
  mutable std::mutex mutex_;  // of all below
  std::string why_refused_;
  std::map<int, std::string> refused_steps_;
  std::list<Kind> kinds_;  // the one that was used last comes first
  int waits_ = 0;          // for so many calls no recording is tried
  int next_waits_ = 0;     // 0: the last recording found memory
  int64_t recorded_ = 0;
  double record_ms_ = 0;
};

}  // namespace vesta::runtime
