// An artifact with every Size evaluated for one assignment of its symbols: what a run reads. A static artifact has one;
// others keep the last few.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <vector>

#include "artifact/artifact.h"
#include "runtime/input_check.h"

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
  int64_t offset = 0;  // elements
  ResolvedTensor type;
};

struct ResolvedLaunch {
  std::vector<int64_t> offsets;  // bytes
  std::vector<int64_t> sizes;
  int64_t items = 0;
  int64_t scratch = 0;
  int64_t grain = 0;  // 0: on the calling thread
};

struct ResolvedExtern {
  std::vector<c10::IValue> stack;  // every argument; tensors are filled in at run time
  struct Slot {
    int argument = 0;
    enum Kind : uint8_t { One, List, OptionalList } kind = One;
    std::vector<ResolvedView> views;
  };
  std::vector<Slot> slots;
};

struct Resolved {
  std::vector<int64_t> symbols;
  std::vector<ResolvedTensor> buffers;
  ArenaLayout arena;
  // Parallel to Artifact::derived and Artifact::steps; one of them is set.
  struct Step {
    ResolvedLaunch launch;
    ResolvedExtern call;
    std::vector<ResolvedView> inputs;  // of a Call
    ResolvedView copy;
  };
  std::vector<Step> derived, steps;
  struct Output {
    ResolvedView view;
    ResolvedTensor type;
    int64_t storage_offset = 0;
    int64_t integer = 0;
  };
  std::vector<Output> outputs;
};

// Per extern step the schema's argument types decide how plain data becomes IValues.
std::shared_ptr<const Resolved> resolve(const artifact::Artifact& artifact,
                                        std::span<const c10::FunctionSchema* const> derived_schemas,
                                        std::span<const c10::FunctionSchema* const> step_schemas,
                                        std::span<const int64_t> symbols);

}  // namespace vesta::runtime
