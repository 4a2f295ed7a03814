// From fusion groups to steps and buffers.
#pragma once

#include "schedule/cpu_loops.h"
#include "schedule/fusion.h"
#include "schedule/kernel_key.h"
#include "schedule/stage.h"

namespace vesta::schedule {

class Planner final : public loops::BufferLookup {
 public:
  Planner(const graph::Graph& graph, const Options& options, const Refused& refused)
      : graph_(graph), options_(options), fusion_(graph, options, refused), keys_(graph, fusion_, placement_) {}
  Plan run();

  // Thrown by run(): the kernel of this node cannot be built even alone.
  struct Unbuildable {
    const graph::Node* node;
    std::string why;
  };

  // Thrown by run(): these nodes are faster as ATen calls.
  struct Alone {
    std::vector<const graph::Node*> nodes;
  };

  // loops::BufferLookup, for the group that is being built
  const loops::MemoryRef* memory_of(const graph::Value* v) const override;
  const loops::IndexMap* index_map(const graph::Node* node) const override;

 private:
  // Buffers (buffers.cpp)
  void assign_buffers();
  int add_buffer(Buffer b, const graph::Value* v);
  int64_t alignment_of(const Buffer& b) const;
  graph::TensorType storage_type(const graph::Value* v) const;
  BufferView window(const graph::Value* v);
  BufferView whole(int buffer) const;

  // Steps (planner.cpp)
  void build_kernels();
  KernelStep kernel_of(int g);
  KernelStep build_kernel(int g, std::vector<const graph::Node*>& computed);
  // Thrown where a kernel would read an input at another index, or later, than it overwrites it.
  struct ReadsWhatItWrote {};
  void check_in_place(const FusionGroup& group, const Staged& staged) const;
  bool has_work(int g) const;
  std::vector<int> order() const;
  ExternStep extern_step(int u);
  void add_outputs();
  Device device() const;

  const graph::Graph& graph_;
  const Options& options_;
  Fusion fusion_;
  Plan plan_;
  Placement placement_;
  KernelKeys keys_;
  std::vector<std::unique_ptr<KernelStep>> kernels_;  // by group
  // Each distinct kernel that was built, with the numbers of its arguments and nodes in the key.
  struct Built {
    KernelStep step;
    std::vector<size_t> args, nodes;
  };
  std::unordered_map<KernelKey, Built, KernelKeyHash> built_;
  // of the group that is being built
  int current_ = -1;
  std::unordered_map<const graph::Node*, loops::IndexMap> index_maps_;
};

}  // namespace vesta::schedule
