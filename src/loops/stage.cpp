#include "loops/stage.h"

#include <algorithm>

#include "base/check.h"

namespace vesta::loops {

namespace {

constexpr int kKeepThreshold = 6;  // recomputing costs more than a store and a load of the scratch row

class Stager {
 public:
  Stager(const Dag& dag, const StageOptions& options) : dag_(dag), options_(options) {
    for (const Range& r : dag.ranges()) {
      if (r.kind == RangeKind::Inner) inner_vars_.push_back(r.var);
    }
  }

  Staged run() {
    take_out_offsets();
    analyse();
    choose_rows();
    open_kernel();
    for (int s = 0; s <= levels_; ++s) {
      emit_once(s);
      if (!inner_vars_.empty()) emit_loop(s);
    }
    out_.kernel->context = context_;
    return std::move(out_);
  }

 private:
  bool varies(Expr e) const {
    return std::any_of(inner_vars_.begin(), inner_vars_.end(), [&](Expr v) { return contains(e, v); });
  }

  // Read and written again by every pass of the inner loops, be it at one place.
  bool repeats(const Instr& i) const {
    if (!dag_.in_order() || inner_vars_.empty() || i.buffer < 0) return false;
    const auto& in = dag_.instrs();
    auto touches = [&](InstrKind k) {
      return std::any_of(in.begin(), in.end(), [&](const Instr& x) { return x.kind == k && x.buffer == i.buffer; });
    };
    return touches(InstrKind::Load) && touches(InstrKind::Store);
  }

  static bool has_index(InstrKind k) { return k == InstrKind::Index || k == InstrKind::Load || k == InstrKind::Store; }

  // The part of a buffer's offsets that is the same everywhere moves into the launch, so that layers which differ only
  // in where their data lies give equal kernels.
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

  void analyse() {
    const auto& in = dag_.instrs();
    size_t n = in.size();
    live_.assign(n, false);
    inner_.assign(n, false);
    level_.assign(n, 0);
    for (Ref s : dag_.stores()) live_[s] = true;
    for (Ref r = static_cast<Ref>(n); r-- > 0;) {
      if (live_[r]) dag_.for_each_operand(r, [&](Ref o) { live_[o] = true; });
    }
    for (Ref r = 0; r < n; ++r) {
      if (!live_[r]) continue;
      InstrKind k = in[r].kind;
      bool inner = k == InstrKind::Accumulate || k == InstrKind::Scan;
      if (has_index(k)) inner |= varies(in[r].index) || repeats(in[r]);
      int level = 0;
      dag_.for_each_operand(r, [&](Ref o) {
        inner |= inner_[o];
        level = std::max(level, level_[o]);
      });
      if (k == InstrKind::Result) {
        inner = false;
        ++level;
      }
      inner_[r] = inner;
      level_[r] = level;
      levels_ = std::max(levels_, level);
    }
    VESTA_CHECK(levels_ == 0 || !inner_vars_.empty(), "a reduction without an inner loop");
    for (Ref r = 0; r < n; ++r) {
      if (live_[r] && inner_[r] && (in[r].kind == InstrKind::Accumulate || in[r].kind == InstrKind::Store)) {
        roots_.push_back(r);
      }
    }
  }

  int own_cost(Ref r) const {
    const Instr& i = dag_.instrs()[r];
    switch (i.kind) {
      case InstrKind::Constant: return 0;
      case InstrKind::Load: {
        if (options_.vector < 0) return 2;
        auto c = coefficient_of(i.index, dag_.ranges()[options_.vector].var);
        return c && (c->is_constant(0) || c->is_constant(1) || c->is_constant(-1)) ? 2 : 10;
      }
      case InstrKind::Compute: return cost(i.prim);
      case InstrKind::Scan: return 1000;
      default: return 1;
    }
  }

  // Cost of computing r from loads, each instruction once; stops counting beyond the threshold.
  int recompute_cost(Ref r) {
    std::vector<Ref> work = {r}, seen;
    int total = 0;
    while (!work.empty() && total < kKeepThreshold) {
      Ref x = work.back();
      work.pop_back();
      if (!inner_[x] || std::find(seen.begin(), seen.end(), x) != seen.end()) continue;
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
    if (inner_vars_.empty()) return;
    int64_t elements = 1;
    for (const Range& r : dag_.ranges()) {
      if (r.kind == RangeKind::Inner) elements *= std::max<int64_t>(1, hint(r.extent));
    }
    const bool columns = options_.vector >= 0 && dag_.ranges()[options_.vector].kind == RangeKind::Parallel;
    if (columns) elements *= options_.block;
    int64_t budget = options_.row_bytes;
    for (int s = 0; s <= levels_; ++s) {
      std::vector<Ref> work;
      std::vector<Ref> fresh;
      for (Ref r : roots_) {
        if (level_[r] == s) work.push_back(r);
      }
      std::vector<char> seen(in.size(), 0);
      while (!work.empty()) {
        Ref x = work.back();
        work.pop_back();
        if (seen[x] || !inner_[x]) continue;
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
    if (recompute_cost(x) < kKeepThreshold) return false;
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
      Range own;
      own.extent = move(r.extent);
      own.kind = r.kind;
      own.var = context_->loop_symbol(
          r.kind == RangeKind::Parallel ? "p" + std::to_string(p++) : "r" + std::to_string(q++), own.extent);
      moved_[r.var] = own.var;
      k.ranges.push_back(own);
    }
    k.vector = options_.vector;
    k.block = options_.block;
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
      KernelBuffer buffer;
      buffer.dtype = from.dtype;
      buffer.written = from.written;
      out_.kernel->buffers.push_back(buffer);
    }
    return k;
  }

  Ref append(Stage& stage, Instr i) {
    Ref r = static_cast<Ref>(out_.kernel->instrs.size());
    out_.kernel->instrs.push_back(std::move(i));
    stage.body.push_back(r);
    return r;
  }

  // Emits r and what it needs into the stage; returns its number in the kernel.
  Ref emit(Stage& stage, Ref r) {
    const Instr& from = dag_.instrs()[r];
    if (auto it = local_.find(r); it != local_.end()) return it->second;
    // A Result names its Accumulate across stages.
    if (from.kind == InstrKind::Accumulate) {
      if (auto it = global_.find(r); it != global_.end()) return it->second;
    }
    const bool local = inner_[r] || from.kind == InstrKind::Constant;
    if (!local) {
      if (auto it = global_.find(r); it != global_.end()) return it->second;
      VESTA_CHECK(!stage.loop, "a value free of inner variables was not computed before its loop");
    }
    Instr i = from;
    if (stage.loop && slot_[r] >= 0 && first_stage_[r] < current_) {
      i = Instr{};
      i.kind = InstrKind::RowLoad;
      i.dtype = from.dtype;
      i.slot = slot_[r];
      return local_[r] = append(stage, std::move(i));
    }
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
    if (stage.loop && slot_[r] >= 0) {
      Instr keep;
      keep.kind = InstrKind::RowStore;
      keep.dtype = from.dtype;
      keep.in[0] = k;
      keep.slot = slot_[r];
      append(stage, std::move(keep));
    }
    return k;
  }

  void emit_once(int s) {
    const auto& in = dag_.instrs();
    Stage stage;
    current_ = s;
    local_.clear();
    // What later loops need must be there before them; constants follow their users.
    for (Ref r = 0; r < in.size(); ++r) {
      if (live_[r] && !inner_[r] && level_[r] == s && in[r].kind != InstrKind::Constant) emit(stage, r);
    }
    if (!stage.body.empty()) out_.kernel->stages.push_back(std::move(stage));
  }

  void emit_loop(int s) {
    Stage stage;
    stage.loop = true;
    current_ = s;
    local_.clear();
    for (Ref r : roots_) {
      if (level_[r] != s) continue;
      Ref k = emit(stage, r);
      if (dag_.instrs()[r].kind == InstrKind::Accumulate) global_[r] = k;
    }
    if (!stage.body.empty()) out_.kernel->stages.push_back(std::move(stage));
  }

  const Dag& dag_;
  const StageOptions& options_;
  std::vector<Expr> inner_vars_;
  std::vector<char> live_, inner_;
  std::vector<int> level_, slot_, first_stage_;
  std::vector<Ref> roots_;
  std::vector<DType> slots_;
  int levels_ = 0, current_ = 0, indirects_ = 0;
  std::unordered_map<int, Expr> offsets_;
  std::unordered_map<Expr, Expr> moved_;
  std::unordered_map<Ref, Ref> local_, global_;
  std::shared_ptr<ExprContext> context_;
  Staged out_;
};

}  // namespace

Staged build_stages(const Dag& dag, const StageOptions& options) { return Stager(dag, options).run(); }

}  // namespace vesta::loops
