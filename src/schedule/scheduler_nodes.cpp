// The first half of grouping: which nodes compute, which values must be in memory, and which are computed where they
// are read.
#include "base/check.h"
#include "graph/device.h"
#include "graph/rules/complex.h"
#include "graph/work.h"
#include "loops/ops/rows.h"
#include "schedule/cuda/products.h"
#include "schedule/cuda/threads.h"
#include "schedule/divisor.h"
#include "schedule/fusion.h"
#include "schedule/register_tiles.h"

namespace vesta::schedule {

using graph::Family;
using graph::Node;
using graph::Value;

namespace {

constexpr int64_t kFewRows = 32;

// Whether v joins graph inputs along their first dimension. The kernel of a product reads each of these inputs in
// place, so v is not stored.
bool are_inputs_side_by_side(const Value* v) {
  if (!v->producer || v->producer->op->name != "aten::cat" || v->producer->prepacked) return false;
  const auto pieces = loops::pieces_of(*v->producer);
  return loops::constant_dim(*v->producer) == 0 &&
         std::all_of(pieces.begin(), pieces.end(), [](const loops::Piece& p) { return !p.source->producer; });
}

bool can_split(ReduceOp op) { return op != ReduceOp::ArgMax && op != ReduceOp::ArgMin; }

constexpr int kQuick = 2;  // the cost of a value that is computed again wherever it is read

}  // namespace

int64_t hint_numel(std::span<const Expr> sizes) {
  int64_t n = 1;
  for (Expr e : sizes) n *= hint(e);
  return n;
}

int body_cost(const Node& node) {
  switch (node.op->family()) {
    case Family::Pointwise: return graph::pointwise_cost(node);
    case Family::Factory: return 1;
    case Family::Indexed: {
      int n = 0;
      node.for_each_input([&](Value*) { ++n; });
      const loops::LoweringRow* row = loops::find_lowering(node);
      if (row && row->gathers) return row->whole_rows ? 4 : 12;  // a whole row costs what a load costs
      return row && row->once ? 3 * n : 40;
    }
    default: return 4;
  }
}

Fusion::Fusion(const graph::Graph& graph, const Options& options, const Refused& refused)
    : graph_(graph),
      options_(options),
      limits_(limits_of(options.target.device)),
      device_(graph::first_device(graph, options.target.device).value_or(Device{options.target.device})),
      refused_(refused),
      scheduler_node_of_(graph.value_count(), -1),
      variables_(std::make_shared<loops::LoopVariables>(graph.context)) {}

bool Fusion::is_view(const Node* node) const {
  return node && node->op->family() == Family::View && node->op->row->view && node->results.size() == 1;
}

const Value* Fusion::base_of(const Value* v) const {
  while (is_view(v->producer)) v = v->producer->input(0);
  return v;
}

// Kernels work on the memory of one device.
bool Fusion::is_on_target(const Value* v) const { return v->type.device == device_; }

// Whether a GPU kernel may take the element of v, a number in the CPU's memory, as an argument, as ATen's kernels do.
bool Fusion::is_argument(const Node& node, const Value* v) const {
  return device_.type != DeviceType::CPU && v->type.device.type == DeviceType::CPU && base_of(v)->type.dim() == 0 &&
         !is_complex(v->type.dtype) && v->type.dtype == base_of(v)->type.dtype &&
         node.op->family() == Family::Pointwise;
}

bool Fusion::all_on_target(const Node& node) const {
  bool all = true;
  node.for_each_input([&](const Value* v) { all &= is_on_target(v); });
  return all;
}

// Whether a kernel computes this matrix product. Its operands lie in memory.
bool Fusion::is_product(const Node& node) const {
  return options_.why_no_kernels.empty() && options_.fuse && !options_.rounds &&
         (is_kernel_product(node, options_.target) || is_register_product(node, options_.target)) &&
         !refused_.count(&node) && is_on_target(node.results[0]) && all_on_target(node);
}

// Empty if a kernel may compute the node; otherwise the reason why it is a call into ATen.
std::string Fusion::why_no_kernel(const Node& node) const {
  if (!options_.why_no_kernels.empty()) return options_.why_no_kernels;
  const Value* elsewhere = nullptr;
  int values = 0;
  for (const Value* v : node.results)
    if (v && !is_on_target(v)) elsewhere = v;
  node.for_each_input([&](const Value* v) {
    if (is_on_target(v) || (is_argument(node, v) && ++values == 1)) return;
    elsewhere = v;
  });
  if (elsewhere)
    return fmt::format("a tensor is on {}, but code is generated for {}", to_string(elsewhere->type.device),
                       to_string(device_));
  std::string why = loops::why_not_lowered(node);
  const loops::LoweringRow* const row = loops::find_lowering(node);
  if (why.empty() && options_.deterministic && row && row->unordered)
    why = "ATen's operator is not deterministic, and torch.use_deterministic_algorithms is on";
  if (why.empty() && sums_in_one_thread(node)) why = "sums that threads of a GPU may not add in any order";
  return why;
}

// Whether threads would wait for one that adds elements to repeated places of a buffer, on a GPU.
bool Fusion::sums_in_one_thread(const Node& node) const {
  if (!limits_.adds_atomically || node.op->family() != Family::Scatter) return false;
  if (adds_atomically() && loops::adds_in_any_order(node)) return false;
  const std::optional<loops::Update> update = loops::update_of(node);
  return update && update->combine == Prim::Add && std::ranges::find(update->ordered, true) != update->ordered.end();
}

void Fusion::collect_nodes() {
  int position = 0, last_ordered = -1;
  nodes.reserve(graph_.node_count());
  graph_.for_each_node([&](const Node* node) {
    ++position;
    if (is_view(node)) {
      scheduler_node_of_[node->results[0]->id] = -2;
      return;
    }
    bool used = node->op->has(graph::kRandom) || !node->op->row || node->raises;
    for (const Value* v : node->results) used |= v && graph_.is_used(v);
    if (!used) return;
    auto refused = refused_.find(node);
    const bool product = is_product(*node);
    std::string reason;
    if (!product) reason = refused == refused_.end() ? why_no_kernel(*node) : refused->second;
    if (node->raises && reason.empty()) reason = "its result is not read, but it may raise";
    if (node->prepacked && reason.empty()) reason = "computed once for each version of its weights: no kernel pays";
    if (comes_in_pieces(*node, reason.empty())) {
      add_pieces(node, position);
      return;
    }
    bool one_hot = reason.empty() && loops::is_one_hot_gather(*node);
    if (one_hot) {
      // This pays if it saves writing the operand.
      int p = scheduler_node_of(base_of(node->input(0)));
      const bool computed = p >= 0 && nodes[p].kind != SchedulerNodeKind::Extern && !nodes[p].prepacked;
      one_hot = computed && options_.fuse;
    }
    SchedulerNode u;
    if (reason.empty() && !limits_.asserts_places) add_checks(*node, position, u);
    if (reason.empty() && (one_hot || node->op->family() == Family::Reduction || product)) {
      add_reduction(node, position);
    } else if (reason.empty() && is_update(*node)) {
      add_update(node, position, std::move(u));
    } else if (reason.empty() && node->op->family() == Family::Scan) {
      add_scan(node, position);
    } else {
      u.kind = reason.empty() ? SchedulerNodeKind::Map : SchedulerNodeKind::Extern;
      u.reason = std::move(reason);
      u.cost = u.kind == SchedulerNodeKind::Map ? body_cost(*node) : 0;
      if (node->op->has(graph::kRandom)) {
        if (last_ordered >= 0) u.reads.push_back(Read::after(last_ordered));
        last_ordered = static_cast<int>(nodes.size());
      }
      u.node = node;
      u.position = position;
      u.prepacked = node->prepacked;
      add(std::move(u));
    }
  });
}

// Adds a scheduler node that computes the results of its node.
void Fusion::add(SchedulerNode u) {
  for (const Value* v : u.node->results) {
    if (!v) continue;
    if (!u.value) u.value = v;
    scheduler_node_of_[v->id] = static_cast<int>(nodes.size());
  }
  nodes.push_back(std::move(u));
}

std::vector<Expr> SchedulerNode::operand_index() const {
  std::vector<Expr> at = operand_map;
  if (split_dim < 0 || kind == SchedulerNodeKind::Final) return at;
  const auto d = static_cast<size_t>(split_dim);
  at[d] = at[d] * operand_sizes[d + 1] + at[d + 1];
  at.erase(at.begin() + split_dim + 1);
  return at;
}

void SchedulerNode::split(size_t d, int64_t into) {
  split_dim = static_cast<int>(d);
  chunks = into;
  operand_sizes[d] = floordiv(operand_sizes[d], into);
  operand_sizes.insert(operand_sizes.begin() + split_dim, Expr(into));
  operand_reduced.insert(operand_reduced.begin() + split_dim, false);
}

// Adds the scheduler nodes that check the indices at which `user` reads or writes, each index tensor once. `user` runs
// after them.
void Fusion::add_checks(const Node& node, int position, SchedulerNode& user) {
  for (const loops::IndexCheck& check : loops::index_checks(node)) {
    auto known = std::find_if(asserted_.begin(), asserted_.end(), [&](const auto& a) { return a.first == check; });
    if (known == asserted_.end()) {
      if (loops::surely_holds(check, graph_.context)) continue;
      SchedulerNode u;
      u.kind = SchedulerNodeKind::Check;
      u.node = &node;
      u.position = position;
      u.needed = true;
      u.check = check;
      u.operand_sizes = check.index->type.sizes;
      u.operand_reduced.assign(u.operand_sizes.size(), true);
      split_check(u);
      SchedulerNode raise;
      raise.kind = SchedulerNodeKind::Assert;
      raise.node = &node;
      raise.position = position;
      raise.partner = static_cast<int>(nodes.size());
      nodes.push_back(std::move(u));
      known = asserted_.emplace(asserted_.end(), check, static_cast<int>(nodes.size()));
      nodes.push_back(std::move(raise));
    }
    user.reads.push_back(Read::after(known->second));
  }
}

// Checks many indices in chunks, so that all cores take part. `u` becomes the scheduler node that combines the chunks.
void Fusion::split_check(SchedulerNode& u) {
  const auto constant = [](Expr e) { return e.is_constant(); };
  if (!options_.fuse || !std::all_of(u.operand_sizes.begin(), u.operand_sizes.end(), constant)) return;
  if (hint_numel(u.operand_sizes) < limits_.split_elements) return;
  // Among the dimensions with enough chunks, the one with the largest stride: each chunk is then contiguous.
  size_t dim = 0;
  int64_t chunks = 0;
  std::pair<bool, int64_t> best{false, 0};
  for (size_t d = 0; d < u.operand_sizes.size(); ++d) {
    const int64_t into = largest_divisor(u.operand_sizes[d].constant(), limits_.chunks);
    const bool enough = into >= limits_.enough_chunks;
    const std::pair<bool, int64_t> worth{enough, enough ? hint(u.check.index->type.strides[d]) : into};
    if (worth > best) dim = d, chunks = into, best = worth;
  }
  if (chunks < 4) return;
  SchedulerNode parts = u;
  parts.split(dim, chunks);
  u.partner = static_cast<int>(nodes.size());
  u.operand_sizes = {Expr(chunks)};
  u.operand_reduced = {true};
  nodes.push_back(std::move(parts));
}

// A scatter is an Update. Elements of a slice are an Update if the input itself can be written, otherwise a Map.
bool Fusion::is_update(const Node& node) const {
  if (node.op->family() == Family::Scatter) return true;
  if (loops::may_come_in_pieces(node)) return false;  // one kernel makes all
  return options_.fuse && loops::update_of(node) && mutation_of_update(node) >= 0;
}

// Whether a concatenation has more pieces than one element can select from, or a tensor gets a border and both lie in
// memory. The kernel that computes a piece stores it at its offset. If no piece is computed, a copy is as good.
bool Fusion::comes_in_pieces(const Node& node, bool lowered) const {
  if (!loops::may_come_in_pieces(node) || node.prepacked || !options_.fuse || refused_.count(&node)) return false;
  if (!options_.why_no_kernels.empty() || !is_on_target(node.results[0])) return false;
  if (is_complex(node.results[0]->type.dtype)) return false;
  const auto pieces = loops::pieces_of(node);
  const bool has_border = std::ranges::any_of(pieces, [](const loops::Piece& p) { return !p.source; });
  if (lowered && !(has_border && limits_.stores_pieces && lies_in_memory(node.results[0]))) return false;
  bool computed = false, plain = true;
  for (const auto& [v, sizes] : pieces) {
    if (!v) continue;
    const int p = scheduler_node_of(base_of(v));
    std::unordered_set<const Value*> seen;
    computed |=
        lowered ? ends_loops(v, seen) : p >= 0 && nodes[p].kind == SchedulerNodeKind::Map && !nodes[p].prepacked;
    plain &= v->type.dim() == node.results[0]->type.dim() && is_on_target(v);
    plain &= v->type.dtype != DType::Other && !is_complex(v->type.dtype) && !is_float8(v->type.dtype);
  }
  return computed && plain && pieces.size() <= limits_.pieces;
}

// Whether a reader of v reads its elements from memory: as an operand of a product, or many times.
bool Fusion::lies_in_memory(const Value* v) const {
  return std::ranges::any_of(v->users, [&](const Node* user) {
    if (is_view(user)) return lies_in_memory(user->results[0]);
    const loops::LoweringRow* const row = loops::find_lowering(*user);
    return (row && row->windows) || is_product(*user);
  });
}

// Whether elements of v are what a product or a convolution of a kernel gives, or are computed from these alone and
// from others that are in memory: the kernel then stores v, wherever that is.
bool Fusion::ends_loops(const Value* v, std::unordered_set<const Value*>& seen) const {
  const Value* const base = base_of(v);
  const int p = scheduler_node_of(base);
  if (p < 0 || nodes[p].prepacked || !seen.insert(base).second ||
      !provably_equal(graph::numel(v->type), graph::numel(base->type)))
    return false;
  const SchedulerNode& u = nodes[p];
  if (u.kind == SchedulerNodeKind::Reduce) return loops::product_operands(*u.node).has_value();
  if (u.kind != SchedulerNodeKind::Map) return false;
  if (const loops::LoweringRow* const row = loops::find_lowering(*u.node); row && row->windows) return true;
  if (u.node->op->family() != Family::Pointwise) return false;
  bool ends = false;
  u.node->for_each_input([&](const Value* x) {
    ends = ends || (provably_equal(graph::numel(x->type), graph::numel(base->type)) && ends_loops(x, seen));
  });
  return ends;
}

// The scheduler node of the last piece represents the whole.
void Fusion::add_pieces(const Node* node, int position) {
  std::vector<Read> before;
  const size_t n = loops::pieces_of(*node).size();
  for (size_t k = 0; k < n; ++k) {
    SchedulerNode u;
    u.kind = SchedulerNodeKind::Update;
    u.node = node;
    u.value = node->results[0];
    u.position = position;
    u.in_any_order = limits_.stores_pieces;
    u.piece = k;
    u.cost = 1;
    const loops::Update update = *loops::update_of(*node, nullptr, k);
    u.operand_sizes = update.sizes;
    u.operand_reduced = update.ordered;
    if (k + 1 == n) u.reads = before;
    before.push_back(Read::after(static_cast<int>(nodes.size())));
    nodes.push_back(std::move(u));
  }
  scheduler_node_of_[node->results[0]->id] = static_cast<int>(nodes.size()) - 1;
}

void Fusion::add_update(const Node* node, int position, SchedulerNode u) {
  const loops::Update update = *loops::update_of(*node);
  u.kind = SchedulerNodeKind::Update;
  u.node = node;
  u.value = node->results[0];
  u.position = position;
  u.operand_sizes = update.sizes;
  u.operand_reduced = update.ordered;
  if (adds_atomically() && loops::adds_in_any_order(*node)) u.operand_reduced.assign(u.operand_sizes.size(), false);
  u.cost = 10;
  u.on_input = mutation_of_update(*node) >= 0;
  if (u.on_input) {
    // If eager raises before this write, the input must stay unchanged.
    for (size_t k = 0; k < nodes.size(); ++k) {
      const bool raises = nodes[k].kind == SchedulerNodeKind::Extern || nodes[k].kind == SchedulerNodeKind::Assert;
      if (raises && !nodes[k].prepacked) u.reads.push_back(Read::after(static_cast<int>(k)));
    }
  } else {
    SchedulerNode base;
    base.kind = SchedulerNodeKind::Copy;
    base.value = node->input(0);
    base.into = u.value;
    base.position = position;
    base.needed = true;
    u.reads.push_back(Read::after(static_cast<int>(nodes.size())));
    nodes.push_back(std::move(base));
  }
  add(std::move(u));
}

void Fusion::add_scan(const Node* node, int position) {
  SchedulerNode u;
  u.kind = SchedulerNodeKind::Scan;
  u.node = node;
  u.position = position;
  u.prepacked = node->prepacked;
  u.operand_sizes = node->input(0)->type.sizes;
  u.operand_reduced.assign(u.operand_sizes.size(), false);
  u.operand_reduced[loops::scan_shape(*node)->dim] = true;
  u.cost = 10;
  add(std::move(u));
}

void Fusion::add_reduction(const Node* node, int position) {
  SchedulerNode u;
  u.kind = SchedulerNodeKind::Reduce;
  u.node = node;
  u.position = position;
  u.prepacked = node->prepacked;
  u.shape = *loops::reduction_shape(*node);
  u.operand_sizes = loops::reduced_sizes(*node);
  u.operand_reduced = u.shape.reduced;
  u.cost = 4;
  u.value = *std::ranges::find_if(node->results, [](const Value* v) { return v; });
  if (loops::product_operands(*node)) return add(std::move(u));

  // For few results from many elements, chunks come first, so that all cores and whole vectors have work. The split
  // depends on sizes alone.
  int64_t kept = 1, all = 1;
  int outer = -1;
  bool constant = true;
  for (size_t d = 0; d < u.operand_sizes.size(); ++d) {
    constant &= u.operand_sizes[d].is_constant();
    all *= hint(u.operand_sizes[d]);
    if (!u.operand_reduced[d]) {
      kept *= hint(u.operand_sizes[d]);
    } else if (outer < 0 || hint(u.operand_sizes[d]) >= 4 * hint(u.operand_sizes[outer])) {
      outer = static_cast<int>(d);
    }
  }
  const bool last_kept = !u.operand_reduced.empty() && !u.operand_reduced.back();
  const int64_t items = last_kept ? kept / std::clamp<int64_t>(hint(u.operand_sizes.back()), 1, 64) : kept;
  int64_t chunks = 1;
  // The groups of a group norm over channels-last memory: one block of threads would read them slowly, three times.
  const bool apart = !last_kept && !u.operand_sizes.empty() && !node->input(0)->type.strides.back().is_constant(1);
  const int64_t length = all / std::max<int64_t>(1, kept);
  const int64_t row_elements = shares_rows(options_.target) ? limits_.shared_row : limits_.row_elements;
  const bool few = apart ? items < limits_.many_rows && length >= limits_.apart_elements
                         : items < kFewRows && (last_kept || length >= row_elements);
  const bool whole = last_kept && all <= kept * limits_.whole_column;
  if (constant && outer >= 0 && all >= limits_.split_elements && few && !whole && can_split(u.shape.op)) {
    // Products that underflow pass through denormals, which are slow, once in each lane of each chunk.
    const int64_t least = u.shape.op == ReduceOp::Prod ? 8 * limits_.chunk_elements : limits_.chunk_elements;
    const int64_t most =
        std::min({limits_.chunks, all / least, limits_.split_elements * 8 / std::max<int64_t>(1, kept)});
    chunks = largest_divisor(hint(u.operand_sizes[outer]), most);
  }
  if (chunks < 4 || !options_.fuse) return add(std::move(u));
  SchedulerNode partial = u;
  partial.kind = SchedulerNodeKind::Partial;
  partial.split(static_cast<size_t>(outer), chunks);
  partial.partner = static_cast<int>(nodes.size()) + 1;
  partial.needed = true;
  nodes.push_back(std::move(partial));
  u.kind = SchedulerNodeKind::Final;
  u.chunks = chunks;
  u.split_dim = outer;
  u.partner = static_cast<int>(nodes.size()) - 1;
  u.operand_sizes.insert(u.operand_sizes.begin(), Expr(chunks));
  u.operand_reduced.assign(u.operand_sizes.size(), false);
  u.operand_reduced[0] = true;
  for (size_t d = 0, at = 1; d < u.shape.reduced.size(); ++d) {
    if (u.shape.reduced[d]) {
      u.operand_sizes.erase(u.operand_sizes.begin() + static_cast<int64_t>(at));
      u.operand_reduced.erase(u.operand_reduced.begin() + static_cast<int64_t>(at));
    } else {
      ++at;
    }
  }
  add(std::move(u));
}

void Fusion::mark_needed() {
  int end = nodes.empty() ? 1 : nodes.back().position + 1;
  auto add_copy = [&](const Value* v, int position) {
    SchedulerNode u;
    u.kind = SchedulerNodeKind::Copy;
    u.value = v;
    u.reason = options_.why_no_kernels;
    if (!is_on_target(v))
      u.reason = fmt::format("a copy on {}: code is generated for {}", to_string(v->type.device), to_string(device_));
    if (const int p = scheduler_node_of(base_of(v)); p >= 0 && !u.reason.empty()) nodes[p].needed = true;
    u.position = position;
    u.needed = true;
    nodes.push_back(std::move(u));
    return static_cast<int>(nodes.size()) - 1;
  };
  std::vector<char> read_by_call(nodes.size(), 0);
  for (size_t i = 0, n = nodes.size(); i < n; ++i) {
    const bool calls = nodes[i].kind == SchedulerNodeKind::Extern;
    const auto in_memory = [&](const Value* v) {
      const int p = scheduler_node_of(base_of(v));
      if (p < 0) return;
      nodes[p].needed = true;
      read_by_call[p] |= calls && !nodes[i].prepacked;
    };
    if (calls) nodes[i].node->for_each_input(in_memory);
    if (nodes[i].kind != SchedulerNodeKind::Reduce) continue;
    if (const auto product = loops::product_operands(*nodes[i].node)) {
      in_memory(product->rows);
      if (!are_inputs_side_by_side(product->columns) && !is_converted_weight(product->columns))
        in_memory(product->columns);
    }
  }
  std::unordered_set<const Value*> mutated;
  for (const graph::Mutation& m : graph_.mutations) mutated.insert(graph_.inputs[m.input].value);
  for (const graph::Mutation& m : graph_.mutations) {
    int copy = -1;
    const Value* base = base_of(m.value);
    int p = scheduler_node_of(base);
    if (p >= 0) {
      nodes[p].needed = true;
    } else if (mutated.count(base) && base != graph_.inputs[m.input].value) {
      copy = add_copy(m.value, end);  // an earlier copy would overwrite its old contents
    }
    mutation_copy.push_back(copy);
  }
  int last_kernel = -1;
  for (const SchedulerNode& u : nodes)
    if (!u.is_call()) last_kernel = std::max(last_kernel, u.position);
  // Whether a call in a recording makes or reads the output. It then lies where every run has it, and the output of
  // each run is a copy: by a kernel right after the call, or by the kernel that makes it. Later calls may then use the
  // memory.
  const auto copied_in_recording = [&](const Value* base, int p) {
    if (!options_.recorded || !options_.why_no_kernels.empty() || p < 0 || nodes[p].prepacked || !is_on_target(base))
      return false;
    if (nodes[p].kind == SchedulerNodeKind::Extern) return nodes[p].position < last_kernel;
    return read_by_call[p] != 0;
  };
  std::unordered_set<const Value*> given;
  for (const graph::Output& o : graph_.outputs) {
    output_copy.push_back(-1);
    if (o.kind != graph::OutputKind::Fresh) continue;
    const Value* base = base_of(o.value);
    int p = scheduler_node_of(base);
    if (copied_in_recording(base, p)) {
      nodes[p].needed = true;
      const bool all =
          given.insert(base).second && provably_equal(graph::numel(o.value->type), graph::numel(base->type));
      output_copy.back() = add_copy(all ? base : o.value, nodes[p].position);
      continue;
    }
    const bool returned_view =
        p >= 0 && nodes[p].kind == SchedulerNodeKind::Extern && nodes[p].node->op->schema.is_view();
    const bool kept = p >= 0 && nodes[p].prepacked;
    if (p < 0 || returned_view || kept || !given.insert(base).second) {
      if (p >= 0 && nodes[p].kind == SchedulerNodeKind::Extern) nodes[p].needed = true;
      output_copy.back() = add_copy(o.value, end);
    } else {
      nodes[p].needed = true;
    }
  }
}

// Whether the columns of a product are a wider form of what lies in memory: the kernel converts each element once,
// while it packs the columns.
bool Fusion::is_converted_weight(const Value* columns) const {
  const int p = scheduler_node_of(base_of(columns));
  if (p < 0 || device_.type != DeviceType::CPU || nodes[p].kind != SchedulerNodeKind::Map || nodes[p].prepacked ||
      nodes[p].node->op->name != "aten::_to_copy")
    return false;
  const Value* const from = nodes[p].node->input(0);
  return element_size(from->type.dtype) < element_size(columns->type.dtype) && scheduler_node_of(base_of(from)) < 0;
}

// The scheduler node of a value that this one casts to a wider type. -1: it does not.
int Fusion::widened(const Node& node) const {
  if (node.op->name != "aten::_to_copy") return -1;
  const Value *from = node.input(0), *to = node.results[0];
  if (element_size(from->type.dtype) >= element_size(to->type.dtype)) return -1;
  const int p = scheduler_node_of(from);
  return p >= 0 && nodes[p].kind == SchedulerNodeKind::Map && nodes[p].value == from ? p : -1;
}

void Fusion::decide_inlining() {
  struct Use {
    int64_t volume = 0;
    int64_t repeated = 0;  // elements of results for each of which it would be computed
    bool many = false;
    bool windowed = false;  // computed where it is read, it would be computed for each window anew
    bool reduced = false;
  };
  std::vector<std::vector<std::pair<const Value*, int>>> seen(nodes.size());
  std::vector<Use> uses(nodes.size());
  auto use = [&](int consumer, const Value* v, int64_t volume, bool many) {
    const Value* base = base_of(v);
    int p = scheduler_node_of(base);
    if (p < 0) return;
    auto key = std::pair(v, consumer);
    if (std::find(seen[p].begin(), seen[p].end(), key) != seen[p].end()) return;
    seen[p].push_back(key);
    uses[p].volume += volume;
    const bool same_in_row = v->type.sizes.empty() || v->type.sizes.back().is_constant(1);
    if (!limits_.hoists || !same_in_row) uses[p].repeated += volume;
    uses[p].reduced |= consumer >= 0 && nodes[consumer].kind != SchedulerNodeKind::Map;
    uses[p].many |= many;
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    SchedulerNode& u = nodes[i];
    int me = static_cast<int>(i);
    switch (u.kind) {
      case SchedulerNodeKind::Copy: use(me, u.value, hint_numel(u.value->type.sizes), false); break;
      case SchedulerNodeKind::Extern:
      case SchedulerNodeKind::Assert:
      case SchedulerNodeKind::Final: break;
      case SchedulerNodeKind::Check:
        if (u.partner < 0) use(me, u.check.index, hint_numel(u.operand_sizes), false);
        break;
      case SchedulerNodeKind::Scan: use(me, u.node->input(0), hint_numel(u.operand_sizes), false); break;
      case SchedulerNodeKind::Update:
        for (const auto& [v, at] : loops::update_reads(*u.node, u.operand_sizes, u.piece)) {
          use(me, v, hint_numel(u.operand_sizes), false);
        }
        break;
      case SchedulerNodeKind::Reduce:
      case SchedulerNodeKind::Partial:
        if (const auto product = loops::product_operands(*u.node)) {
          for (const Value* v : loops::applied_to_sums(*product)) use(me, v, hint_numel(u.value->type.sizes), false);
          break;
        }
        use(me, u.node->input(0), hint_numel(u.operand_sizes), false);
        if (loops::is_one_hot_gather(*u.node))
          use(me, u.node->input(2), hint_numel(u.node->input(2)->type.sizes), false);
        break;
      case SchedulerNodeKind::Map: {
        int64_t n = hint_numel(u.value->type.sizes);
        const bool indexed = u.node->op->family() == Family::Indexed;
        const loops::LoweringRow* row = indexed ? loops::find_lowering(*u.node) : nullptr;
        u.node->for_each_input([&](Value* v) {
          if (const int p = row && row->windows ? scheduler_node_of(base_of(v)) : -1; p >= 0) uses[p].windowed = true;
          if (indexed && !(row && row->gathers && v != u.node->input(0))) {
            use(me, v, row && row->once ? hint_numel(v->type.sizes) : 4 * hint_numel(v->type.sizes),
                !(row && row->once));
          } else {
            use(me, v, n, false);
          }
        });
      }
    }
  }
  std::vector<bool> after_kernel(nodes.size());  // whether the node reads a value that a kernel computes
  for (size_t i = 0; i < nodes.size(); ++i) {
    SchedulerNode& u = nodes[i];
    if (u.kind != SchedulerNodeKind::Map) continue;
    int64_t n = std::max<int64_t>(1, hint_numel(u.value->type.sizes));
    int64_t small_loads = 0;
    const loops::LoweringRow* const row = loops::find_lowering(*u.node);
    u.windowed = row && row->windows;
    u.node->for_each_input([&](Value* v) {
      int p = scheduler_node_of(base_of(v));
      int64_t m = hint_numel(base_of(v)->type.sizes);
      if (p >= 0 && nodes[p].kind != SchedulerNodeKind::Extern && (!nodes[p].inlined || after_kernel[p]))
        after_kernel[i] = true;
      if (p >= 0 && nodes[p].inlined) {
        u.cost += nodes[p].cost;
        u.big_loads += nodes[p].big_loads;
        u.windowed |= nodes[p].windowed;
      } else if (4 * m > n && n > 64) {
        ++u.big_loads;
      } else {
        ++small_loads;
      }
    });
    if (u.needed || !options_.fuse || u.cost > limits_.inline_cost || u.prepacked) continue;
    const bool factory = u.node->op->family() == Family::Factory;
    const bool once = !uses[i].many && uses[i].volume <= n;
    const bool repeated = after_kernel[i] && uses[i].repeated / n >= limits_.repeated;
    const bool cheap = u.cost <= limits_.cheap && u.big_loads <= 1 && (!(uses[i].many || repeated) || u.cost <= kQuick);
    u.inlined = factory || (!uses[i].windowed && !(u.windowed && uses[i].reduced) && (once || cheap));
    // If kernels read a value after a cast to a wider type, the narrow value is stored, and the cast is inlined.
    if (const int p = u.inlined || uses[i].windowed || u.windowed ? -1 : widened(*u.node); p >= 0 && nodes[p].inlined) {
      nodes[p].inlined = false;
      u.cost = body_cost(*u.node);
      u.big_loads = 1;
      u.inlined = true;
    }
  }
}

}  // namespace vesta::schedule
