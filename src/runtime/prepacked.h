// Prepacked constants of one program: tensors computed from parameters (packed, folded, converted) and kept until a
// parameter changes. If they read a parameter without a version counter, they are computed at every run.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "artifact/packing.h"
#include "base/cancel.h"
#include "runtime/bound_program.h"
#include "runtime/resolver.h"
#include "runtime/shared_constants.h"

namespace vesta::runtime {

struct PrepackedSet {
  ParameterVersions versions;       // parallel to Artifact::prepacked_parameters
  std::vector<at::Tensor> tensors;  // per buffer; defined for the Prepacked ones that runs read
  std::vector<std::shared_ptr<const PackedTensors>> parts;
  mutable std::atomic<void*> last_stream{nullptr};  // of a GPU

  // The tensors of a packing, in the order of Packing::kept.
  void take(const artifact::Packing& packing, std::span<const at::Tensor> made) {
    for (size_t k = 0; k < made.size(); ++k) tensors[static_cast<size_t>(packing.kept[k])] = made[k];
  }
};

// Thread-safe.
class Prepacked {
 public:
  // `program`: the bound prepacked steps of the artifact. Both outlive it.
  Prepacked(const artifact::Artifact& artifact, const BoundProgram& program) : artifact_(artifact), program_(program) {}

  // The constants for a run on `device`, with `stream` as its current stream if it is a GPU. Throws NotPacked.
  std::shared_ptr<const PrepackedSet> get(const CallInputs& in, Sizes& sizes, c10::Device device, void* stream);
  // The same for a run that the caller captures: the capture computes them, because its replays must see what is
  // written to parameters in between, as eager's do.
  std::shared_ptr<const PrepackedSet> captured(const CallInputs& in, Sizes& sizes, c10::Device device);

  // The constants that exist, and those that are to be computed.
  struct Missing {
    const artifact::Packing* packing = nullptr;
    std::vector<at::Tensor> parameters;
    ParameterVersions versions;
  };
  struct Draft {
    std::shared_ptr<PrepackedSet> set;
    std::vector<Missing> missing;
    int64_t bytes = 0;  // of the parameters of what is missing
  };
  Draft draft(const CallInputs& in);
  // Computes on the CPU what the draft lacks, each weight apart, and keeps the set. Runs on another thread than calls
  // do: they find the weights that are done, and none waits. `in`: tensors with the memory of the draft's parameters.
  void finish(Draft draft, const CallInputs& in, Sizes& sizes, const CancelToken& cancel);

  int64_t bytes() const;
  int64_t times_computed() const { return times_.load(std::memory_order_relaxed); }
  void drop() { set_.store(nullptr); }

 private:
  struct Made {
    std::vector<at::Tensor> tensors;  // in the order of Packing::kept
    int64_t bytes = 0;
  };
  bool current(const PrepackedSet& set, const CallInputs& in) const;
  const std::vector<artifact::Packing>& packings();
  std::shared_ptr<const PrepackedSet> make(const CallInputs& in, Sizes& sizes, c10::Device device, void* stream);
  static void add(PrepackedSet& set, const artifact::Packing& packing, std::shared_ptr<const PackedTensors> part);
  // What was computed for `missing`, as a part of the set that other programs find.
  static void keep(PrepackedSet& set, Missing missing, Made made, void* stream);
  // Runs the steps of these packings.
  std::vector<Made> compute(const std::vector<const artifact::Packing*>& packings, const CallInputs& in, Sizes& sizes,
                            c10::Device device) const;

  const artifact::Artifact& artifact_;
  const BoundProgram& program_;
  std::atomic<std::shared_ptr<const PrepackedSet>> set_{nullptr};
  std::mutex mutex_;  // held by the thread that computes them
  std::once_flag read_;
  std::vector<artifact::Packing> packings_;
  std::atomic<int64_t> times_ = 0;
};

}  // namespace vesta::runtime
