#include "schedule/stage.h"

#include <algorithm>

#include "base/check.h"
#include "loops/levels.h"

namespace vesta::schedule {

using loops::Dag;
using loops::DagBuffer;
using loops::has_index;
using loops::Instr;
using loops::InstrKind;
using loops::Kernel;
using loops::kNoRef;
using loops::Levels;
using loops::Range;
using loops::RangeKind;
using loops::Ref;
using loops::Stage;

namespace {

class Stager {
 public:
  Stager(const Dag& dag, const Staging& choice) : dag_(dag), choice_(choice), levels_(levels_of(dag)) {
    for (const Range& r : dag.ranges()) has_inner_ |= r.kind == RangeKind::Inner;
    VESTA_CHECK(levels_.last == 0 || has_inner_, "a reduction without an inner loop");
  }

  Staged run() {
    take_out_offsets();
    choose_rows();
    open_kernel();
    for (int s = 0; s <= levels_.last; ++s) {
      emit_once(s);
      if (has_inner_) emit_loop(s);
    }
    out_.kernel->context = context_;
    return std::move(out_);
  }

 private:
  // Moves the part of a buffer's offsets that is the same in all accesses into the launch. Layers that differ only in
  // the position of their data then give equal kernels.
  void take_out_offsets() {
    std::unordered_map<int, Expr> base;
    std::unordered_map<int, bool> equal;
    auto at_zero = [](Expr e) {
      return substitute(e, [](Expr s) { return s.node()->symbol_kind == SymbolKind::Size ? s : Expr(0); });
    };
    dag_.for_each_index([&](Ref r, Expr e) {
      int b = dag_.instrs()[r].buffer;
      if (b < 0) return;
      Expr zero = at_zero(e);
      auto [it, fresh] = base.emplace(b, zero);
      if (fresh) {
        equal[b] = provably_at_least(zero, 0);
      } else if (it->second != zero) {
        equal[b] = false;
      }
    });
    for (auto& [b, e] : base) {
      if (equal[b] && !e.is_constant(0)) offsets_[b] = e;
    }
  }

  int own_cost(Ref r) const {
    const Instr& i = dag_.instrs()[r];
    switch (i.kind) {
      case InstrKind::Constant: return 0;
      case InstrKind::Load: {
        if (choice_.keep_narrow) return repeats(i) ? 2 : choice_.keep_cost;
        if (choice_.vector < 0) return 2;
        auto c = coefficient_of(i.index, dag_.ranges()[choice_.vector].var);
        return c && (c->is_constant(0) || c->is_constant(1) || c->is_constant(-1)) ? 2 : 10;
      }
      case InstrKind::Compute: return cost(i.prim);
      case InstrKind::Scan: return 1000;
      default: return 1;
    }
  }

  // Whether a load reads the same elements again and again along an inner range, as a bias does: caches hold them.
  bool repeats(const Instr& load) const {
    const std::vector<Expr> symbols = symbols_of(load.index);
    const auto depends = [&](const Range& r) {
      return std::any_of(symbols.begin(), symbols.end(),
                         [&](Expr s) { return s == r.var || s.node()->symbol_kind == SymbolKind::Indirect; });
    };
    return std::any_of(dag_.ranges().begin(), dag_.ranges().end(),
                       [&](const Range& r) { return r.kind == RangeKind::Inner && hint(r.extent) > 1 && !depends(r); });
  }

  // The cost of computing r from loads and kept values, each instruction once. It stops counting at the threshold.
  int recompute_cost(Ref r) {
    std::vector<Ref> work = {r}, seen;
    int total = 0;
    while (!work.empty() && total < choice_.keep_cost) {
      Ref x = work.back();
      work.pop_back();
      if (!levels_.inner[x] || slot_[x] >= 0 || std::find(seen.begin(), seen.end(), x) != seen.end()) continue;
      seen.push_back(x);
      total += own_cost(x);
      dag_.for_each_operand(x, [&](Ref o) { work.push_back(o); });
    }
    return total;
  }

  void choose_rows() {
    const auto& in = dag_.instrs();
    slot_.assign(in.size(), -1);
    first_stage_.assign(in.size(), -1);
    if (!has_inner_) return;
    int64_t elements = 1;
    for (const Range& r : dag_.ranges()) {
      if (r.kind == RangeKind::Inner) elements *= std::max<int64_t>(1, hint(r.extent));
    }
    const bool columns = choice_.vector >= 0 && dag_.ranges()[choice_.vector].kind == RangeKind::Parallel;
    if (columns) elements *= choice_.block;
    int64_t budget = choice_.row_bytes;
    for (int s = 0; s <= levels_.last; ++s) {
      std::vector<Ref> work;
      std::vector<Ref> fresh;
      for (Ref r : levels_.roots) {
        if (levels_.level[r] == s) work.push_back(r);
      }
      std::vector<char> seen(in.size(), 0);
      while (!work.empty()) {
        Ref x = work.back();
        work.pop_back();
        if (seen[x] || !levels_.inner[x]) continue;
        seen[x] = 1;
        if (first_stage_[x] >= 0 && keep(x, elements, budget)) continue;
        if (first_stage_[x] < 0) fresh.push_back(x);
        dag_.for_each_operand(x, [&](Ref o) { work.push_back(o); });
      }
      for (Ref x : fresh) first_stage_[x] = s;
    }
  }

  bool keep(Ref x, int64_t elements, int64_t& budget) {
    const Instr& i = dag_.instrs()[x];
    if (i.kind == InstrKind::Indirect || i.kind == InstrKind::Index || i.dtype == DType::Bool) return false;
    if (slot_[x] >= 0) return true;
    if (choice_.keep_narrow && i.kind == InstrKind::Cast && levels_.inner[i.in[0]] &&
        element_size(loops::value_type(dag_.instrs(), i.in[0])) < element_size(i.dtype))
      return false;
    if (recompute_cost(x) < choice_.keep_cost) return false;
    int64_t bytes = elements * element_size(i.dtype);
    if (i.kind != InstrKind::Scan) {
      if (bytes > budget) return false;
      budget -= bytes;
    }
    slot_[x] = static_cast<int>(slots_.size());
    slots_.push_back(i.dtype);
    return true;
  }

  // ---- Emission ---------------------------------------------------------------------------------------------------

  void open_kernel() {
    context_ = std::make_shared<ExprContext>();
    out_.kernel = std::make_shared<Kernel>();
    Kernel& k = *out_.kernel;
    int p = 0, q = 0;
    for (const Range& r : dag_.ranges()) {
      const Expr extent = move(r.extent);
      const std::string name = r.kind == RangeKind::Parallel ? "p" + std::to_string(p++) : "r" + std::to_string(q++);
      k.ranges.push_back({context_->loop_symbol(name, extent), extent, r.kind});
      moved_[r.var] = k.ranges.back().var;
    }
    k.vector = choice_.vector;
    k.block = choice_.block;
    k.row_slots = slots_;
  }

  // The expression in the kernel's own context.
  Expr move(Expr e) {
    return substitute(e, [&](Expr s) {
      auto it = moved_.find(s);
      if (it != moved_.end()) return it->second;
      Expr own;
      const ExprNode* n = s.node();
      if (n->symbol_kind == SymbolKind::Indirect) {
        own = context_->indirect_symbol("t" + std::to_string(indirects_++));
      } else {
        VESTA_CHECK(n->symbol_kind == SymbolKind::Size, "the loop variable {} is no range of the kernel", n->name);
        own = context_->size_symbol("s" + std::to_string(out_.sizes.size()), n->hint, n->lower);
        out_.sizes.push_back(s);
        out_.kernel->sizes.push_back(own);
      }
      moved_[s] = own;
      return own;
    });
  }

  int kernel_buffer(int b) {
    const DagBuffer& from = dag_.buffers()[static_cast<size_t>(b)];
    auto it = std::find(out_.buffers.begin(), out_.buffers.end(), from.id);
    int k = static_cast<int>(it - out_.buffers.begin());
    if (it == out_.buffers.end()) {
      out_.buffers.push_back(from.id);
      auto o = offsets_.find(b);
      out_.offsets.push_back(o == offsets_.end() ? Expr(0) : o->second);
      out_.kernel->buffers.push_back({.dtype = from.dtype, .written = from.written});
    }
    return k;
  }

  Ref append(Stage& stage, Instr i) {
    Ref r = static_cast<Ref>(out_.kernel->instrs.size());
    out_.kernel->instrs.push_back(std::move(i));
    stage.body.push_back(r);
    return r;
  }

  // Emits r and what it needs into the stage. Returns its number in the kernel.
  Ref emit(Stage& stage, Ref r) {
    const Instr& from = dag_.instrs()[r];
    if (auto it = local_.find(r); it != local_.end()) return it->second;
    // A Result names its Accumulate in another stage.
    if (from.kind == InstrKind::Accumulate) {
      if (auto it = global_.find(r); it != global_.end()) return it->second;
    }
    const bool local = levels_.inner[r] || from.kind == InstrKind::Constant;
    if (!local) {
      if (auto it = global_.find(r); it != global_.end()) return it->second;
      VESTA_CHECK(!stage.loop, "a value free of inner variables was not computed before its loop");
    }
    if (stage.loop && slot_[r] >= 0 && first_stage_[r] < current_)
      return local_[r] = append(stage, {.kind = InstrKind::RowLoad, .dtype = from.dtype, .slot = slot_[r]});
    Instr i = from;
    dag_.for_each_operand(r, [&](Ref o) { emit(stage, o); });
    for (Ref& o : i.in) {
      if (o != kNoRef) o = emit(stage, o);
    }
    if (has_index(from.kind) || from.kind == InstrKind::Indirect) {
      auto base = from.buffer < 0 ? offsets_.end() : offsets_.find(from.buffer);
      i.index = move(base == offsets_.end() ? from.index : from.index - base->second);
    }
    if (from.buffer >= 0) i.buffer = kernel_buffer(from.buffer);
    Ref k = append(stage, std::move(i));
    (local ? local_ : global_)[r] = k;
    if (stage.loop && slot_[r] >= 0)
      append(stage, {.kind = InstrKind::RowStore, .dtype = from.dtype, .in = {k, kNoRef, kNoRef}, .slot = slot_[r]});
    return k;
  }

  void emit_once(int s) {
    const auto& in = dag_.instrs();
    Stage stage;
    current_ = s;
    local_.clear();
    // Values that later loops need come before those loops; constants follow their users.
    for (Ref r = 0; r < in.size(); ++r) {
      if (levels_.live[r] && !levels_.inner[r] && levels_.level[r] == s && in[r].kind != InstrKind::Constant)
        emit(stage, r);
    }
    if (!stage.body.empty()) out_.kernel->stages.push_back(std::move(stage));
  }

  void emit_loop(int s) {
    Stage stage;
    stage.loop = true;
    current_ = s;
    local_.clear();
    for (Ref r : levels_.roots) {
      if (levels_.level[r] != s) continue;
      Ref k = emit(stage, r);
      if (dag_.instrs()[r].kind == InstrKind::Accumulate) global_[r] = k;
    }
    if (!stage.body.empty()) out_.kernel->stages.push_back(std::move(stage));
  }

  const Dag& dag_;
  const Staging& choice_;
  const Levels levels_;
  bool has_inner_ = false;
  std::vector<int> slot_, first_stage_;
  std::vector<DType> slots_;
  int current_ = 0, indirects_ = 0;
  std::unordered_map<int, Expr> offsets_;
  std::unordered_map<Expr, Expr> moved_;
  std::unordered_map<Ref, Ref> local_, global_;
  std::shared_ptr<ExprContext> context_;
  Staged out_;
};

}  // namespace

Staged build_stages(const Dag& dag, const Staging& choice) { return Stager(dag, choice).run(); }

}  // namespace vesta::schedule
