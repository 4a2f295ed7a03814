#include "schedule/planner.h"

#include <algorithm>
#include <climits>
#include <functional>
#include <queue>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "schedule/kernel_schedule.h"
#include "schedule/lifetimes.h"

namespace vesta::schedule {

using graph::Node;
using graph::Value;

namespace {

// Stores the element of v at `index`; of a complex number both parts.
void store(loops::Lowering& lowering, const loops::MemoryRef& to, const Value* v, std::span<const Expr> index) {
  const Expr offset = loops::offset_of(to, index);
  for (int part = 0; part < (is_complex(v->type.dtype) ? 2 : 1); ++part) {
    loops::Lowering::Part in_force(lowering, part);
    lowering.dag().store(to.buffer, offset + Expr(part), lowering.element(v, index));
  }
}

}  // namespace

const loops::MemoryRef* Planner::memory_of(const Value* v) const {
  int p = fusion_.scheduler_node_of(v);
  if (p == -2) return nullptr;
  if (p >= 0 && (fusion_.nodes[p].inlined || fusion_.nodes[p].group == current_)) return nullptr;
  int b = placement_.of_value[v->id];
  VESTA_CHECK(b >= 0, "%{} is read by a kernel but lies in no buffer", v->id);
  return &placement_.memory[b];
}

const loops::IndexMap* Planner::index_map(const Node* node) const {
  auto it = index_maps_.find(node);
  return it == index_maps_.end() ? nullptr : &it->second;
}

bool Planner::has_work(int g) const {
  const FusionGroup& group = fusion_.groups[g];
  if (!group.fusable) return true;
  return std::any_of(group.nodes.begin(), group.nodes.end(), [&](int i) {
    const SchedulerNode& u = fusion_.nodes[i];
    if (placement_.of_node[i] >= 0 || u.into) return true;
    if (!u.node || u.kind == SchedulerNodeKind::Check) return false;
    // An uninitialized result need not hold anything.
    if (u.node->op->has(graph::kUninitialized) && u.value->users.empty()) return false;
    return std::any_of(u.node->results.begin(), u.node->results.end(), [&](const Value* v) {
      return v && placement_.of_value[v->id] >= 0 && !graph::numel(v->type).is_constant(0);
    });
  });
}

// The kernel of group g: that of an equal group with this group's buffers, or a new one.
KernelStep Planner::kernel_of(int g) {
  const KernelKey& key = keys_.of(g);
  // A dag names its buffers, so it serves one group alone.
  auto known = options_.keep_dags ? built_.end() : built_.find(key);
  if (known == built_.end()) {
    Built made;
    std::vector<const Node*> nodes;
    made.step = build_kernel(g, nodes);
    for (const KernelArg& a : made.step.args) made.args.push_back(key.number_of(a.buffer));
    for (const Node* n : nodes) made.nodes.push_back(key.number_of(n));
    known = built_.insert_or_assign(key, std::move(made)).first;
  }
  const Built& built = known->second;
  KernelStep step = built.step;
  for (size_t i = 0; i < step.args.size(); ++i) step.args[i].buffer = key.buffers[built.args[i]];
  for (const size_t i : built.nodes)
    for (const Value* v : key.nodes[i]->results)
      if (v) step.values.push_back(v->id);
  return step;
}

KernelStep Planner::build_kernel(int g, std::vector<const Node*>& computed) {
  const FusionGroup& group = fusion_.groups[g];
  current_ = g;
  index_maps_.clear();
  loops::Dag dag(fusion_.variables());
  for (size_t k = 0; k < group.dims.size(); ++k) {
    dag.ranges().push_back({fusion_.dim_symbol(k, group.dims[k].extent), group.dims[k].extent, group.dims[k].kind});
  }
  loops::Lowering lowering(dag, *this,
                           {.rounds = options_.rounds,
                            .asserts_places = limits_of(options_.target.device).asserts_places,
                            .adds_atomically = fusion_.adds_atomically()});
  for (int i : group.nodes) {
    const SchedulerNode& u = fusion_.nodes[i];
    if (u.kind == SchedulerNodeKind::Reduce || u.kind == SchedulerNodeKind::Scan) {
      index_maps_[u.node] = {u.result_map, u.operand_map, nullptr, 0};
    } else if (u.kind == SchedulerNodeKind::Final) {
      index_maps_[u.node] = {u.result_map, {}, &placement_.memory[placement_.of_node[u.partner]], u.operand_map[0]};
    }
  }
  for (int i : group.nodes) {
    const SchedulerNode& u = fusion_.nodes[i];
    if (u.kind == SchedulerNodeKind::Copy) {
      const loops::MemoryRef& to = placement_.memory[u.into ? placement_.of_value[u.into->id] : placement_.of_node[i]];
      store(lowering, to, u.value, u.result_map);
      continue;
    }
    if (u.kind == SchedulerNodeKind::Check) {
      const loops::MemoryRef& to = placement_.memory[placement_.of_node[i]];
      if (u.partner >= 0) {
        const loops::MemoryRef& chunks = placement_.memory[placement_.of_node[u.partner]];
        auto in_range = dag.load(chunks.buffer, loops::offset_of(chunks, u.operand_map));
        dag.store(to.buffer, 0, dag.reduce(ReduceOp::All, in_range, {}, 0));
        continue;
      }
      auto index = dag.cast(DType::I64, lowering.element(u.check.index, u.operand_index()));
      auto low = dag.bin(Prim::Ge, index, dag.size(DType::I64, u.check.wraps ? -u.check.size : Expr(0)));
      auto high = dag.bin(Prim::Lt, index, dag.size(DType::I64, u.check.size));
      const Expr chunk = u.split_dim < 0 ? Expr(0) : u.operand_map[static_cast<size_t>(u.split_dim)];
      dag.store(to.buffer, chunk, dag.reduce(ReduceOp::All, dag.bin(Prim::And, low, high), {}, 0));
      continue;
    }
    if (u.kind == SchedulerNodeKind::Update) {
      lowering.update(*u.node, u.operand_map, placement_.memory[placement_.of_value[u.value->id]], u.piece);
      continue;
    }
    if (u.kind == SchedulerNodeKind::Partial) {
      loops::IndexMap map;
      map.operand = u.operand_index();
      const auto d = static_cast<size_t>(u.split_dim);
      std::vector<Expr> at = {u.operand_map[d]};
      for (size_t k = 0; k < u.operand_sizes.size(); ++k) {
        if (!u.operand_reduced[k] && k != d) at.push_back(u.operand_map[k]);
      }
      const loops::MemoryRef& to = placement_.memory[placement_.of_node[i]];
      dag.store(to.buffer, loops::offset_of(to, at), lowering.reduction(*u.node, map, 0));
      continue;
    }
    for (const Value* v : u.node->results) {
      if (!v || placement_.of_value[v->id] < 0) continue;
      const loops::MemoryRef& to = placement_.memory[placement_.of_value[v->id]];
      std::vector<Expr> at = u.result_map;
      if (u.kind != SchedulerNodeKind::Map &&
          u.kind != SchedulerNodeKind::Scan) {  // a reduction's map does not have its reduced dimensions
        at.clear();
        for (size_t d = 0, k = 0; d < u.shape.reduced.size(); ++d) {
          if (!u.shape.reduced[d]) {
            at.push_back(u.result_map[k++]);
          } else if (u.shape.keep) {
            at.push_back(0);
          }
        }
      }
      store(lowering, to, v, at);
    }
  }
  std::shared_ptr<const loops::Dag> unscheduled;
  if (options_.keep_dags) unscheduled = std::make_shared<loops::Dag>(dag);
  KernelSchedule choice = schedule_kernel(dag, options_);
  Staged& staged = choice.staged;
  const auto is_product = [&](int i) {
    const SchedulerNode& u = fusion_.nodes[i];
    return u.kind == SchedulerNodeKind::Reduce && loops::product_operands(*u.node);
  };
  if (staged.kernel->product.rows == 0 && staged.kernel->registers.rows == 0 &&
      std::any_of(group.nodes.begin(), group.nodes.end(), is_product))
    throw loops::CannotFuse("a matrix product for which there are no tiles");
  const size_t instructions = staged.kernel->instrs.size();
  if (instructions > limits_of(options_.target.device).instructions &&
      (group.nodes.size() > 1 || fusion_.nodes[group.nodes[0]].node))
    throw loops::CannotFuse(std::to_string(instructions) + " instructions in one kernel");
  check_in_place(group, staged);

  KernelStep step;
  step.dag = std::move(unscheduled);
  step.kernel = staged.kernel;
  step.text = loops::print(*staged.kernel);
  for (size_t b = 0; b < staged.buffers.size(); ++b) step.args.push_back({staged.buffers[b], staged.offsets[b]});
  step.sizes = std::move(staged.sizes);
  step.items = choice.items;
  auto value_of = [&](Expr s) {
    const auto& own = step.kernel->sizes;
    auto it = std::find(own.begin(), own.end(), s);
    VESTA_CHECK(it != own.end(), "the scratch of a kernel depends on a loop variable");
    return step.sizes[static_cast<size_t>(it - own.begin())];
  };
  const bool in_registers = staged.kernel->threads.block > 0;
  step.scratch = in_registers ? Expr(0) : substitute(loops::scratch_bytes(*staged.kernel), value_of);
  step.item_cost = choice.item_cost;
  step.estimated_bytes = choice.bytes;
  step.estimated_us = choice.us;
  for (int i : group.nodes)
    if (is_product(i)) step.flops += 2 * hint_numel(fusion_.nodes[i].operand_sizes);
  computed = lowering.nodes();
  for (const Node* n : computed) step.ops.emplace_back(n->op->name);
  if (fusion_.nodes[group.nodes[0]].kind == SchedulerNodeKind::Check) step.ops.emplace_back("index_check");
  current_ = -1;
  return step;
}

void Planner::check_in_place(const FusionGroup& group, const Staged& staged) const {
  const loops::Kernel& k = *staged.kernel;
  for (int i : group.nodes) {
    const SchedulerNode& u = fusion_.nodes[i];
    if (u.kind == SchedulerNodeKind::Update || !u.value || fusion_.scheduler_node_of(u.value) != i)
      continue;  // it writes nothing of this kind
    const int m = fusion_.mutation_in_place(u.value);
    if (m < 0) continue;
    const int input = graph_.mutations[m].input;
    std::vector<Expr> written, read;
    bool stored = false, late = false;
    for (const loops::Stage& stage : k.stages) {
      for (loops::Ref r : stage.body) {
        const loops::Instr& x = k.instrs[r];
        if (x.buffer < 0 || staged.buffers[static_cast<size_t>(x.buffer)] != input) continue;
        const bool store = x.kind == loops::InstrKind::Store;
        (store ? written : read).push_back(x.index);
        late = late || (stored && !store);
        stored = stored || store;
      }
    }
    const bool same_places = written.size() == 1 && std::all_of(read.begin(), read.end(),
                                                                [&](Expr e) { return provably_equal(e, written[0]); });
    if (late || !same_places) throw ReadsWhatItWrote{};
  }
}

void Planner::build_kernels() {
  for (bool again = true; again;) {
    again = false;
    plan_.buffers.clear();
    placement_.memory.clear();
    assign_buffers();
    kernels_.clear();
    kernels_.resize(fusion_.groups.size());
    for (size_t g = 0; g < fusion_.groups.size() && !again; ++g) {
      const FusionGroup& group = fusion_.groups[g];
      if (!group.alive || !group.fusable || !has_work(static_cast<int>(g))) continue;
      std::string why;
      try {
        kernels_[g] = std::make_unique<KernelStep>(kernel_of(static_cast<int>(g)));
        continue;
      } catch (const ReadsWhatItWrote&) {
        const bool copied = fusion_.copy_back(static_cast<int>(g));
        VESTA_CHECK(copied, "a kernel reads what it wrote, and nothing can be copied back");
        again = true;
        continue;
      } catch (const loops::CannotFuse& e) {
        why = e.what();
      } catch (const Error& e) {
        why = e.what();
      }
      const Node* node = fusion_.nodes[group.nodes[0]].node;
      VESTA_CHECK(group.nodes.size() > 1 || node, "a copy cannot be a kernel: {}", why);
      if (group.nodes.size() == 1) throw Unbuildable{node, why};
      fusion_.copy_back(static_cast<int>(g));
      fusion_.dissolve(static_cast<int>(g));
      again = true;
    }
  }
}

// Program order, by the last node of each group, where dependencies allow it. A kernel that reads nothing but
// parameters comes right before its first reader, because its results take memory from then on and its operands always
// do.
std::vector<int> Planner::order() const {
  size_t n = fusion_.groups.size();
  std::vector<int> missing(n, 0), in_order, out;
  std::vector<std::vector<int>> before(n), users(n);
  std::vector<char> from_parameters(n, 0), placed(n, 0);
  std::unordered_set<const Value*> parameters;
  for (const graph::Input& i : graph_.inputs)
    if (i.kind == graph::InputKind::Parameter) parameters.insert(i.value);
  for (size_t g = 0; g < n; ++g) {
    const FusionGroup& group = fusion_.groups[g];
    if (!group.alive) continue;
    from_parameters[g] = group.fusable && !group.replaces_input;
    for (int i : group.nodes) {
      for (const Read& r : fusion_.nodes[i].reads) {
        if (r.node < 0) {
          from_parameters[g] = from_parameters[g] && parameters.contains(r.base);
          continue;
        }
        int p = fusion_.nodes[r.node].group;
        if (p == static_cast<int>(g) || p < 0) continue;
        if (std::find(before[g].begin(), before[g].end(), p) == before[g].end()) before[g].push_back(p);
      }
    }
    missing[g] = static_cast<int>(before[g].size());
    for (int p : before[g]) users[p].push_back(static_cast<int>(g));
  }
  using Item = std::pair<int, int>;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> ready;
  auto push = [&](int g) { ready.push({fusion_.groups[g].replaces_input ? INT_MAX : fusion_.groups[g].last, g}); };
  size_t alive = 0;
  for (size_t g = 0; g < n; ++g) {
    if (!fusion_.groups[g].alive) continue;
    ++alive;
    if (missing[g] == 0) push(static_cast<int>(g));
  }
  while (!ready.empty()) {
    int g = ready.top().second;
    ready.pop();
    in_order.push_back(g);
    const auto all = [&](const std::vector<int>& groups, const auto& have) {
      return std::all_of(groups.begin(), groups.end(), have);
    };
    from_parameters[g] = from_parameters[g] && !users[g].empty() &&
                         all(before[g], [&](int p) { return from_parameters[p] != 0; }) &&
                         all(users[g], [&](int u) { return !fusion_.groups[u].replaces_input; });
    for (int u : users[g]) {
      if (--missing[u] == 0) push(u);
    }
  }
  VESTA_CHECK(in_order.size() == alive, "the groups depend on each other in a circle");
  const std::function<void(int)> place = [&](int g) {
    if (std::exchange(placed[g], 1)) return;
    for (int p : before[g]) place(p);
    out.push_back(g);
  };
  for (int g : in_order)
    if (!from_parameters[g]) place(g);
  return out;
}

ExternStep Planner::extern_step(int i) {
  const SchedulerNode& u = fusion_.nodes[i];
  ExternStep step;
  step.reason = u.reason;
  if (u.kind == SchedulerNodeKind::Copy) {
    step.op = &graph::get_op("aten::clone");
    step.args = {window(u.value), graph::Arg{graph::None{}}};
    step.results = {placement_.of_node[i]};
    return step;
  }
  step.op = u.node->op;
  step.source = u.node->source;
  for (const graph::Arg& a : u.node->args()) {
    if (auto* v = std::get_if<Value*>(&a)) {
      if (*v) {
        step.args.emplace_back(window(*v));
      } else {
        step.args.emplace_back(graph::Arg{graph::None{}});
      }
    } else if (auto* list = std::get_if<graph::ValueList>(&a)) {
      ViewList views;
      for (Value* v : *list) views.views.push_back(v ? window(v) : BufferView{});
      step.args.emplace_back(std::move(views));
    } else {
      step.args.emplace_back(a);
    }
  }
  for (const Value* v : u.node->results) step.results.push_back(v ? placement_.of_value[v->id] : -1);
  return step;
}

BufferView Planner::whole(int buffer) const {
  const Buffer& b = plan_.buffers[buffer];
  return {buffer, b.type.sizes, b.type.strides, 0, b.type.dtype};
}

void Planner::add_outputs() {
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    const graph::Output& o = graph_.outputs[i];
    const int copy = fusion_.output_copy[i];
    BufferView& view = plan_.outputs.emplace_back();
    if (o.kind != graph::OutputKind::Fresh) continue;
    if (copy < 0) {
      view = window(o.value);
    } else if (fusion_.nodes[copy].value == o.value) {
      view = whole(placement_.of_node[copy]);
    } else {  // a view of the copy of its base, which has the layout of the base
      view = window(o.value);
      view.buffer = placement_.of_node[copy];
    }
  }
}

Device Planner::device() const {
  const auto is_kernel = [](const Step& s) { return std::holds_alternative<KernelStep>(s); };
  const auto in_arena = [](const Buffer& b) { return b.role == BufferRole::Arena; };
  if (std::any_of(plan_.steps.begin(), plan_.steps.end(), is_kernel) ||
      std::any_of(plan_.prepacked.begin(), plan_.prepacked.end(), is_kernel) ||
      std::any_of(plan_.buffers.begin(), plan_.buffers.end(), in_arena))
    return fusion_.device();
  for (const Buffer& b : plan_.buffers)
    if (b.type.device.type == DeviceType::CUDA) return b.type.device;
  return {};
}

Plan Planner::run() {
  fusion_.run();
  if (auto nodes = fusion_.alone(); !nodes.empty()) throw Alone{std::move(nodes)};
  build_kernels();
  for (int g : order()) {
    const FusionGroup& group = fusion_.groups[g];
    std::vector<Step>& steps = group.prepacked ? plan_.prepacked : plan_.steps;
    const SchedulerNode& first = fusion_.nodes[group.nodes[0]];
    if (first.kind == SchedulerNodeKind::Assert) {
      steps.emplace_back(
          AssertStep{placement_.of_node[first.partner], "index out of range in " + first.node->op->name});
    } else if (!group.fusable) {
      steps.emplace_back(extern_step(group.nodes[0]));
    } else if (kernels_[g]) {
      steps.emplace_back(std::move(*kernels_[g]));
    }
  }
  for (size_t i = 0; i < graph_.mutations.size(); ++i) {
    const graph::Mutation& m = graph_.mutations[i];
    int c = fusion_.mutation_copy[i];
    plan_.steps.emplace_back(CopyStep{c >= 0 ? whole(placement_.of_node[c]) : window(m.value), m.input});
  }
  add_outputs();
  plan_.device = device();
  lay_out(plan_);
  return std::move(plan_);
}

PlanMemory plan_memory(const graph::Graph& graph) {
  // Measured for chains and fans of products, of pointwise operators and of reductions, of 100 to 20,000 nodes: 0.7 to
  // 3.4 KB for a node, of which half stay, and the bits of FusionGroup::deps: each group has one for each before it.
  constexpr int64_t kNode = 4096, kKept = 2048;
  const auto nodes = static_cast<int64_t>(graph.node_count());
  return {nodes * kNode + nodes * nodes / 16, nodes * kKept};
}

Plan make_plan(const graph::Graph& graph, const Options& options) {
  Refused refused;
  for (;;) {
    try {
      return Planner(graph, options, refused).run();
    } catch (const Planner::Alone& e) {
      for (const Node* node : e.nodes) refused.emplace(node, "fused with nothing, ATen is as fast");
    } catch (const Planner::Unbuildable& e) {
      const bool fresh = refused.emplace(e.node, "no kernel: " + e.why).second;
      VESTA_CHECK(fresh, "{} is refused twice: {}", e.node->op->name, e.why);
    }
  }
}

}  // namespace vesta::schedule
