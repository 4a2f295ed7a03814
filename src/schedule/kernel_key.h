// What the kernel of a fusion group depends on. Layers of a model are groups with equal keys over other weights: their
// kernel is lowered and scheduled once, and bound to the buffers of each.
#pragma once

#include "schedule/fusion.h"

namespace vesta::schedule {

// Where the values of a graph lie.
struct Placement {
  std::vector<int> of_value;             // by value id; -1: in no buffer
  std::vector<int> of_node;              // Partial, Copy and Check scheduler nodes: a buffer of their own; -1: none
  std::vector<loops::MemoryRef> memory;  // by buffer
};

// Equal `facts` and `sizes` give equal kernels, apart from buffers and nodes, which the key numbers in the order in
// which the group reaches them. It holds more than the lowering reads: every node between the group and memory, with
// all arguments and types.
struct KernelKey {
  std::vector<uint64_t> facts;
  std::vector<Expr> sizes;  // sizes, strides and indices; expressions of one context
  std::vector<int> buffers;
  std::vector<const graph::Node*> nodes;

  bool operator==(const KernelKey& o) const { return facts == o.facts && sizes == o.sizes; }
  size_t number_of(int buffer) const;               // InternalError for another buffer
  size_t number_of(const graph::Node* node) const;  // likewise
};
struct KernelKeyHash {
  size_t operator()(const KernelKey& key) const;
};

// Makes the keys of the groups of one graph.
class KernelKeys {
 public:
  KernelKeys(const graph::Graph& graph, const Fusion& fusion, const Placement& placement)
      : graph_(graph), fusion_(fusion), placement_(placement) {}
  const KernelKey& of(int group);  // until the next call

 private:
  void add(uint64_t fact) { key_.facts.push_back(fact); }
  void add(Expr size) { key_.sizes.push_back(size); }
  void add(const std::vector<Expr>& sizes);
  void add(const graph::TensorType& type);
  void add(const graph::Arg& arg);
  void add(std::string_view text);
  void add(const graph::Value* v);
  void add(const graph::Node& node);
  void add(const SchedulerNode& u, int place);
  bool number(std::vector<uint32_t>& numbers, uint32_t id);
  void add_buffer(int buffer);
  bool is_computed(const graph::Value* v) const;

  const graph::Graph& graph_;
  const Fusion& fusion_;
  const Placement& placement_;
  int group_ = -1;
  KernelKey key_;
  // The numbers of values, by value id, and of nodes, by the id of their first result; 0: not reached.
  std::vector<uint32_t> value_number_, node_number_;
  std::vector<uint32_t> reached_;  // ids whose entries are not 0
};

}  // namespace vesta::schedule
