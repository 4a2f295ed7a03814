// Decides which nodes share a kernel.
//
// A scheduler node represents a graph node that computes something; views compute nothing and are index maps. A
// scheduler node is inlined (computed wherever it is read) or belongs to a fusion group. A group whose scheduler nodes
// can be fused becomes one kernel; an ATen call is a group of its own. The loops of a group are its iteration
// dimensions, each a block of adjacent dimensions of one kind, with symbols u0, u1, ... as linear positions. The result
// map of a scheduler node is the index of the element that it computes at (u0, u1, ...).
//
// Guarantees that groups, run in the order of their dependencies, compute what the graph computes. Fusion may not
// change the graph.
#pragma once

#include <unordered_set>

#include "graph/graph.h"
#include "loops/index_tensors.h"
#include "loops/lower.h"
#include "loops/update.h"
#include "schedule/limits.h"
#include "schedule/plan.h"

namespace vesta::schedule {

struct IterationDim {
  loops::RangeKind kind = loops::RangeKind::Parallel;
  Expr extent;
  bool operator==(const IterationDim&) const = default;
};

enum class SchedulerNodeKind : uint8_t {
  Map,      // one element from one index
  Reduce,   // a reduction that one kernel computes whole
  Scan,     // a running combination along one dimension, the inner dimension of its group
  Partial,  // the first kernel of a split reduction: results per chunk
  Final,    // the second kernel: combines the chunks
  Update,   // a kernel that writes some elements of a buffer that holds the others
  Copy,     // a value written to a buffer of its own, or to that of the Update that follows
  Check,    // checks that all elements of an index tensor are in range; with a partner: that all its chunks are
  Assert,   // an ATen call that raises when a Check failed
  Extern,
};

struct Read {
  int node = -1;                       // the scheduler node that computes the value; -1: a graph input
  const graph::Value* base = nullptr;  // the value itself, without views and inlined scheduler nodes
  bool opaque = false;                 // at indices that fusion does not follow
  std::vector<Expr> index = {};        // over the dimension symbols; for a reduction without its reduced dimensions
  // Only orders nodes: the reader runs after `node`.
  static Read after(int node) { return {.node = node, .opaque = true}; }
};

struct SchedulerNode {
  SchedulerNodeKind kind = SchedulerNodeKind::Map;
  const graph::Node* node = nullptr;
  const graph::Value* value = nullptr;  // Copy: what is copied; otherwise the node's first result
  const graph::Value* into = nullptr;   // Copy: the result of the Update that uses its buffer
  bool on_input = false;                // Update: it writes to the buffer of the input that it mutates
  size_t piece = 0;                     // Update: the piece of a result (loops::pieces_of)
  bool in_any_order = false;  // Update: a kernel may run over the elements of its piece as over those of a Map
  int position = 0;           // in program order
  bool inlined = false;
  bool needed = false;  // read by an ATen call, an output or a mutation: always has a buffer
  bool prepacked = false;
  int group = -1;
  std::string reason;     // Extern: why it is one; Copy: why it is a call of aten::clone, if it is one
  int cost = 0;           // prims per element, with inlined operands
  int big_loads = 0;      // operands as large as the result
  bool windowed = false;  // it, or what is inlined into it, reads windows (loops::LoweringRow::windows)
  // Reductions
  loops::ReductionShape shape;
  std::vector<Expr> operand_sizes;  // of the operand; Partial: with the split dimension as two
  std::vector<bool> operand_reduced;
  int split_dim = -1;
  int64_t chunks = 0;
  int partner = -1;         // Partial and Final: the other one; Assert: its Check; Check: the Check of the chunks
  loops::IndexCheck check;  // Check
  // Whether it is a call into ATen: a group of its own that no kernel computes.
  bool is_call() const {
    return kind == SchedulerNodeKind::Extern || (kind == SchedulerNodeKind::Copy && !reason.empty());
  }
  // The sizes of what it makes element by element, and the index there: of a Map, a Copy or a piece.
  const std::vector<Expr>& sizes() const { return in_any_order ? operand_sizes : value->type.sizes; }
  std::vector<Expr>& map() { return in_any_order ? operand_map : result_map; }
  // Indices over the symbols of the group's dimensions.
  std::vector<Expr> result_map;  // index of the result; reductions: without the reduced dimensions
  // Reductions, scans: index of the operand (operand_sizes); Updates: of what is written.
  std::vector<Expr> operand_map;
  std::vector<Read> reads;

  // Splits dimension d of the operand in two. The outer one, of `into` chunks, is not reduced.
  void split(size_t d, int64_t into);
  // operand_map as an index of the operand itself, with the split dimension joined again.
  std::vector<Expr> operand_index() const;
};

struct FusionGroup {
  std::vector<int> nodes;  // in program order
  std::vector<IterationDim> dims;
  bool fusable = false;
  bool reduces = false;
  bool windowed = false;  // a node is: the loop over the channels of a pixel shares the conditions of its windows
  bool prepacked = false;
  bool alive = true;
  bool replaces_input =
      false;  // it overwrites an input that it reads, and runs after all groups that do not need its result
  int first = 0, last = 0;     // positions
  int oldest = 0;              // the least number of the groups that were merged into this one
  int cost = 0;                // of its scheduler nodes
  int products = 0;            // matrix products
  std::vector<uint64_t> deps;  // groups that must run before, transitively
};

using Refused = std::unordered_map<const graph::Node*, std::string>;

class Fusion {
 public:
  // `refused`: nodes that stay ATen calls, with the reason.
  Fusion(const graph::Graph& graph, const Options& options, const Refused& refused);
  void run();

  std::vector<SchedulerNode> nodes;
  std::vector<FusionGroup> groups;
  // The Copy scheduler node that makes graph output or mutation i, or the base of output i. -1: the value's own buffer
  // serves.
  std::vector<int> output_copy, mutation_copy;
  std::vector<char> in_place;                          // mutations that their kernel performs in the input itself
  int mutation_in_place(const graph::Value* v) const;  // -1: no such kernel writes v
  bool copy_back(int g);  // takes back what group g does in place, if anything; Updates stay
  // The scheduler node that computes v, which is no view result. -1: a graph input; -2: a view result.
  int scheduler_node_of(const graph::Value* v) const { return scheduler_node_of_[v->id]; }
  // The value in memory whose views, as index maps, lead to v.
  const graph::Value* base_of(const graph::Value* v) const;
  bool is_view(const graph::Node* node) const;
  Device device() const { return device_; }  // the device whose memory kernels work on
  bool adds_atomically() const { return limits_.adds_atomically && !options_.deterministic; }
  Expr dim_symbol(size_t k, Expr extent) { return variables_->get(k, extent); }
  const std::shared_ptr<loops::LoopVariables>& variables() const { return variables_; }
  // Gives every scheduler node of group g a group of its own, when the group cannot be one kernel. Returns the new
  // groups.
  std::vector<int> dissolve(int g);
  // Nodes that fuse with no other and that ATen computes as fast (alone.cpp).
  std::vector<const graph::Node*> alone() const;
  bool depends(int later, int earlier) const;  // between groups

 private:
  void collect_nodes();
  void add(SchedulerNode u);
  void add_reduction(const graph::Node* node, int position);
  void add_scan(const graph::Node* node, int position);
  void add_checks(const graph::Node& node, int position, SchedulerNode& user);
  void split_check(SchedulerNode& u);
  void mark_needed();
  bool is_converted_weight(const graph::Value* columns) const;
  void decide_inlining();
  int widened(const graph::Node& node) const;
  void form_groups();
  void open_group(int u);
  std::vector<int> producers_of(int u) const;
  bool is_on_target(const graph::Value* v) const;
  bool all_on_target(const graph::Node& node) const;  // its operands
  bool is_product(const graph::Node& node) const;
  bool is_argument(const graph::Node& node, const graph::Value* v) const;
  std::string why_no_kernel(const graph::Node& node) const;
  bool sums_in_one_thread(const graph::Node& node) const;
  void place_alone(int u);
  const std::vector<Expr>& index_of(size_t k, const std::vector<Expr>& sizes);
  void collect_reads(int u);
  void read_wanted(const SchedulerNode& u, std::vector<Expr> operand_index, std::vector<Read>& out);
  void walk(const graph::Value* v, const std::vector<Expr>* index, std::vector<Read>& out);
  void walk_operands(const graph::Node& node, const std::vector<Expr>* index, std::vector<Read>& out);
  bool try_merge(int producer, int consumer);
  bool legal(int a, int b) const;
  bool fits(const std::vector<IterationDim>& from, const std::vector<IterationDim>& to, std::vector<Expr>& images);
  void remap(int g, const std::vector<IterationDim>& dims, const std::vector<Expr>& images);
  bool edges_match(int a, int b) const;
  bool solve_permutation(int consumer, int producer);
  bool is_small(const FusionGroup& g) const;
  void merge_siblings();
  void merge_small_reductions();
  // Whether two groups over the same dimensions are near each other, and neither needs the other.
  bool may_join(int a, int b) const;
  void join(int a, int b);
  void add_dependency(int g, int on);
  void choose_in_place();
  // Whether the node copies an input, or updates an input before the last ATen call, and no other node reads its
  // result.
  bool is_end(const SchedulerNode& u, int last_call) const;
  void merge_ends();
  bool may_replace(size_t mutation) const;
  // A kernel that replaces an input runs after the readers of the old contents and after ATen calls. Whether one of
  // these needs group `other`, so that `writer` could not do that any more if the two were one kernel.
  bool delays_replacement(int writer, int other) const;
  int mutation_by(const graph::Node& node) const;
  int mutation_of_update(const graph::Node& node) const;
  bool adds_in_place(SchedulerNode& w);
  bool is_read(const graph::Value* v, const graph::Node* except) const;
  bool is_update(const graph::Node& node) const;
  // Whether kernels make the node's result piece by piece. `lowered`: one kernel could make it as a whole.
  bool comes_in_pieces(const graph::Node& node, bool lowered) const;
  bool lies_in_memory(const graph::Value* v) const;
  bool ends_loops(const graph::Value* v, std::unordered_set<const graph::Value*>& seen) const;
  void add_pieces(const graph::Node* node, int position);
  void add_update(const graph::Node* node, int position, SchedulerNode u);

  const graph::Graph& graph_;
  const Options& options_;
  const Limits& limits_;
  const Device device_;  // the device whose memory kernels work on
  const Refused& refused_;
  std::vector<int> scheduler_node_of_;
  std::vector<int> ends_;  // scheduler nodes that are fused after all others, by merge_ends()
  std::shared_ptr<loops::LoopVariables> variables_;
  struct Images {
    std::vector<IterationDim> from, to;
    std::unordered_map<Expr, Expr> known;
  };
  std::vector<Images> images_;
  struct SizesHash {
    size_t operator()(const std::vector<Expr>& sizes) const;
  };
  std::vector<std::unordered_map<std::vector<Expr>, std::vector<Expr>, SizesHash>> indices_;  // by k
  std::vector<std::pair<loops::IndexCheck, int>> asserted_;  // with the Assert scheduler node of each check
};

// The rough cost of one element of a pointwise body, in multiplies.
int body_cost(const graph::Node& node);
int64_t hint_numel(std::span<const Expr> sizes);

}  // namespace vesta::schedule
