// The CUDA graphs of one program: decides when it is recorded, for which streams and addresses, and which recording a
// call uses.
//
// The first call of a thread on a stream runs step by step; the second is recorded. Where an extern call in a graph
// reads an input with a new address, the program is recorded for the new address too. If the address changes again, a
// small input is copied from then on. A large one is recorded for four addresses; after that, the calls that read it
// run beside the graphs.
//
// Recordings on one stream share memory. One that holds smaller memory than a later one is made again at its next call.
// The halves of a training step keep no large memory: each run allocates it.
//
// Where memory is short, recordings of other programs are dropped. If that is not enough, the call runs step by step,
// and recording is tried again some calls later.
#pragma once

#include <array>
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

  // One run, with a recording or without; without one it runs step by step.
  class Run {
   public:
    Run() = default;
    Run(Run&&) = default;
    Run& operator=(Run&&) = default;
    ~Run();
    Recording* recording() const { return recording_.get(); }
    GivenMemory take_given() { return std::move(given_); }

   private:
    friend class Recordings;
    Run(std::shared_ptr<Recording> recording, GivenMemory given)
        : recording_(std::move(recording)), given_(std::move(given)) {}
    std::shared_ptr<Recording> recording_;  // this thread has entered its stream
    GivenMemory given_;
  };
  // For a call on the device's current stream, which is not being captured. It may record. It never throws because a
  // recording cannot be made.
  Run find(void* stream, Sizes& sizes, const CallInputs& in, std::span<const at::Tensor> prepacked);

  GraphReport report() const;  // does not wait for calls
  // Drops every recording, if no call uses one.
  bool drop();
  // Called when memory is short: drops every recording of the process, except those in use and except while `device`'s
  // current stream is being captured.
  static void drop_all(c10::Device device);
  int64_t last_use() const { return last_use_.load(std::memory_order_relaxed); }

 private:
  // Calls on one stream with the same sizes.
  struct Kind {
    ReplayStream* stream = nullptr;
    std::vector<int64_t> symbols;
    std::set<std::thread::id> ran_on;                    // threads that have run a call step by step
    std::vector<std::shared_ptr<Recording>> recordings;  // most recently used first
    std::map<int, int> changes;                          // by buffer, how often its address was new
    std::set<int> copied;                                // inputs that are copied
    std::set<int> changing;                              // buffers whose address changes in every call
    int replaced = 0;                                    // recordings that were made again for smaller memory
    std::vector<int> given;                              // GraphPlan::given of the newest recording
    std::array<int64_t, kWorkMemories> given_bytes{};    // what each of its runs allocates to work in
    int moved = 0;                                       // how often only outputs had new addresses
  };
  Kind& kind_of(ReplayStream& stream, const std::vector<int64_t>& symbols);
  // `given` gets the memory of the run.
  std::shared_ptr<Recording> use(Kind& kind, Sizes& sizes, const CallInputs& in, std::span<const at::Tensor> prepacked,
                                 GivenMemory& given);
  std::shared_ptr<Recording> make(Kind& kind, Sizes& sizes, const CallInputs& in, std::span<const at::Tensor> prepacked,
                                  GivenMemory& given);
  // Notes that these buffers have other addresses than in any recording.
  void widen(Kind& kind, const std::set<int>& other, const CallInputs& in);
  bool may_copy(int buffer, const CallInputs& in) const;
  // False: there is not enough memory, even without the recordings of other programs.
  bool make_room(int64_t bytes);
  // Drops recordings of other programs, least recently used first, until all recordings hold at most this many bytes.
  void drop_others(int64_t bytes);
  void refuse(std::string why);
  // Called when memory was short: delays the next recording by some calls that would need one, twice as many each time.
  void wait();

  const RecordedProgram what_;
  const c10::Device device_;
  const GraphOptions options_;
  const bool calls_operators_;
  std::atomic<bool> refused_{false};
  std::atomic<int64_t> last_use_{0};
  mutable std::mutex mutex_;  // protects all members below
  std::string why_refused_;
  std::map<int, std::string> refused_steps_;
  std::list<Kind> kinds_;  // most recently used first
  int waits_ = 0;          // recording is not tried for this many calls
  int next_waits_ = 0;     // 0: the last recording found memory
  int64_t recorded_ = 0;
  double record_ms_ = 0;
};

}  // namespace vesta::runtime
