// An artifact with every Size evaluated for one assignment of its symbols. A run reads only this.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <atomic>
#include <memory>
#include <vector>

#include "artifact/returned.h"

namespace vesta::runtime {

struct ResolvedTensor {
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  c10::Device device = c10::kCPU;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  bool empty = false;  // some size is 0
};

struct ResolvedView {
  int buffer = -1;
  bool whole = false;
  int64_t offset = 0;  // in elements
  ResolvedTensor type;
};

struct ResolvedLaunch {
  std::vector<int64_t> offsets;  // in bytes
  std::vector<int64_t> sizes;
  std::vector<int> of_run;  // indices into `sizes` of those that each run evaluates anew (ShapingSymbols)
  int64_t items = 0;
  int64_t scratch = 0;
  int64_t grain = 0;  // 0: on the calling thread
};

struct ResolvedExtern {
  std::vector<c10::IValue> stack;  // every argument; a run fills in the tensors
  struct Slot {
    int argument = 0;
    enum Kind : uint8_t { One, List, OptionalList } kind = One;
    std::vector<ResolvedView> views;
  };
  std::vector<Slot> slots;
};

// The sizes of a run, as far as they are known: for the steps up to the next one that defines symbols, and for the
// outputs if there is no such step.
struct Resolved {
  Resolved() = default;
  Resolved(const Resolved&) = delete;
  ~Resolved();

  std::vector<int64_t> symbols;         // 0: not known yet; of those that shape nothing, the values of some run
  std::vector<ResolvedTensor> buffers;  // without sizes that are not known yet
  ArenaLayout arena;                    // one for the whole run
  int kept_begin = 0, kept_end = 0;     // from the first step that uses the arena's kept block to after the last one
  struct Step {                         // exactly one of them is set
    ResolvedLaunch launch;
    ResolvedExtern call;
    std::vector<ResolvedView> inputs;  // of a Call
    ResolvedView copy;
  };
  std::vector<Step> prepacked;  // parallel to Artifact::prepacked; set when a run begins
  std::vector<Step> steps;      // Artifact::steps from first_step on
  size_t first_step = 0;
  struct Output {
    ResolvedView view;
    ResolvedTensor type;
    int64_t storage_offset = 0;
  };
  std::vector<Output> outputs;
  // The Resolved with which the last run continued.
  mutable std::atomic<std::shared_ptr<const Resolved>> next{nullptr};
};

// The symbols that sizes, strides, offsets or arguments of extern calls depend on. Of the others, the kernels of a CPU
// read the values as numbers of the program, and outputs return them, so a run with other values of these needs no new
// Resolved. Where the program has steps that define symbols, and on a GPU, whose recordings hold the arguments of
// kernels, every symbol counts.
class ShapingSymbols {
 public:
  ShapingSymbols(const artifact::Artifact& artifact, const artifact::Definitions& definitions);
  // Both have the values of all symbols.
  bool are_equal(std::span<const int64_t> a, std::span<const int64_t> b) const;
  bool cover(const artifact::Size& size) const;

 private:
  void add(const artifact::Size& size);
  void add(const artifact::TensorDesc& type);
  std::vector<bool> shapes_;  // by symbol
};

// Per step; nullptr unless it is an extern call, whose argument types decide how plain data becomes IValues.
struct Schemas {
  std::vector<const c10::FunctionSchema*> prepacked, steps;
};

// `before`: what the run knew until now. Its last step has defined more of `symbols`. nullptr at the begin of a run.
std::shared_ptr<const Resolved> resolve(const artifact::Artifact& artifact, const artifact::Definitions& definitions,
                                        const ShapingSymbols& shaping, const Schemas& schemas,
                                        std::span<const int64_t> symbols, const Resolved* before);

}  // namespace vesta::runtime
