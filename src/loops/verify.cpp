#include <algorithm>

#include "base/check.h"
#include "loops/kernel.h"

namespace vesta::loops {

namespace {

class Verifier {
 public:
  explicit Verifier(const Kernel& k) : k_(k), stage_of_(k.instrs.size(), -1) {}

  void run() {
    ranges();
    require(!k_.stages.empty(), "it does nothing");
    for (size_t s = 0; s < k_.stages.size(); ++s) {
      stage_ = static_cast<int>(s);
      for (Ref r : k_.stages[s].body) {
        require(r < k_.instrs.size(), "stage {} names instruction {} of {}", s, r, k_.instrs.size());
        require(stage_of_[r] < 0, "instruction {} is in two places", r);
        ref_ = r;
        instr(k_.instrs[r]);
        stage_of_[r] = stage_;
      }
    }
  }

 private:
  template <class... Args>
  void require(bool ok, fmt::format_string<Args...> format, Args&&... args) {
    VESTA_CHECK(ok, "kernel does not verify: {}\n{}", fmt::format(format, std::forward<Args>(args)...), print(k_));
  }

  void ranges() {
    bool inner = false;
    int last_parallel = -1;
    for (size_t i = 0; i < k_.ranges.size(); ++i) {
      const Range& r = k_.ranges[i];
      require(r.var.is_symbol() && r.var.node()->symbol_kind == SymbolKind::Loop, "range {} has no loop symbol", i);
      symbols(r.extent, false, false);
      if (r.kind == RangeKind::Inner) {
        inner = true;
      } else {
        require(!inner, "parallel range {} comes after an inner one", i);
        last_parallel = static_cast<int>(i);
      }
    }
    require(k_.vector < static_cast<int>(k_.ranges.size()), "the vector range {} does not exist", k_.vector);
    if (k_.vector >= 0 && k_.ranges[static_cast<size_t>(k_.vector)].kind == RangeKind::Parallel) {
      require(k_.vector == last_parallel, "a parallel vector range must be the last parallel one");
      require(k_.block > 0, "a parallel vector range needs a block");
    }
  }

  void symbols(Expr e, bool parallel, bool inner) {
    for (Expr s : symbols_of(e)) {
      switch (s.node()->symbol_kind) {
        case SymbolKind::Size:
          require(std::find(k_.sizes.begin(), k_.sizes.end(), s) != k_.sizes.end(), "size {} is no argument",
                  to_string(s));
          break;
        case SymbolKind::Loop: {
          auto it = std::find_if(k_.ranges.begin(), k_.ranges.end(), [&](const Range& r) { return r.var == s; });
          require(it != k_.ranges.end(), "loop variable {} has no range", to_string(s));
          require(it->kind == RangeKind::Parallel ? parallel : inner, "loop variable {} is not in scope", to_string(s));
          break;
        }
        case SymbolKind::Indirect: {
          auto binds = [&](Ref r) {
            return k_.instrs[r].kind == InstrKind::Indirect && k_.instrs[r].index == s && visible(r);
          };
          bool bound = false;
          for (Ref r = 0; r < k_.instrs.size() && !bound; ++r) bound = binds(r);
          require(bound, "indirect symbol {} is not bound", to_string(s));
          break;
        }
      }
    }
  }

  // Defined before and readable here.
  bool visible(Ref r) {
    if (r >= k_.instrs.size() || stage_of_[r] < 0) return false;
    if (stage_of_[r] == stage_) return true;
    InstrKind kind = k_.instrs[r].kind;
    return kind == InstrKind::Result || kind == InstrKind::Constant ||
           !k_.stages[static_cast<size_t>(stage_of_[r])].loop;
  }

  DType operand(const Instr& i, size_t n) {
    require(i.in[n] != kNoRef, "instruction {} lacks operand {}", ref_, n);
    require(visible(i.in[n]), "instruction {} reads {} out of its scope", ref_, i.in[n]);
    const Instr& from = k_.instrs[i.in[n]];
    bool has_value = from.kind != InstrKind::Store && from.kind != InstrKind::StoreAdd &&
                     from.kind != InstrKind::RowStore && from.kind != InstrKind::Accumulate;
    require(has_value, "instruction {} reads {}, which has no value", ref_, i.in[n]);
    return value_type(k_, i.in[n]);
  }

  void mask(const Instr& i, size_t n) {
    if (i.in[n] != kNoRef) require(operand(i, n) == DType::Bool, "the mask of instruction {} is not bool", ref_);
  }

  void memory(const Instr& i, bool write) {
    require(i.buffer >= 0 && i.buffer < static_cast<int>(k_.buffers.size()), "instruction {} has no buffer", ref_);
    const KernelBuffer& b = k_.buffers[static_cast<size_t>(i.buffer)];
    require(b.dtype == i.dtype, "instruction {} accesses a buffer of {} as {}", ref_, name(b.dtype), name(i.dtype));
    require(!write || b.written, "instruction {} stores to a buffer that is only read", ref_);
    require(!b.stream || i.kind == InstrKind::Store, "instruction {} reads a buffer that is stored past the caches",
            ref_);
    symbols(i.index, true, loop());
  }

  bool loop() const { return k_.stages[static_cast<size_t>(stage_)].loop; }

  static bool same_or_widened(DType from, DType to) {
    return from == to || ((to == DType::F16 || to == DType::BF16) && from == DType::F32);
  }

  void instr(const Instr& i) {
    require(element_size(i.dtype) > 0 && !is_complex(i.dtype), "instruction {} has type {}", ref_, name(i.dtype));
    switch (i.kind) {
      case InstrKind::Constant: break;
      case InstrKind::Index: symbols(i.index, true, loop()); break;
      case InstrKind::Load:
        mask(i, 0);
        memory(i, false);
        break;
      case InstrKind::Compute: compute(i); break;
      case InstrKind::Cast: operand(i, 0); break;
      case InstrKind::Bitcast:
        require(element_size(operand(i, 0)) == element_size(i.dtype), "bitcast {} changes the size", ref_);
        break;
      case InstrKind::Indirect: {
        require(i.index.is_symbol() && i.index.node()->symbol_kind == SymbolKind::Indirect,
                "instruction {} binds no indirect symbol", ref_);
        require(is_integral(operand(i, 0)), "indirect {} binds a value that is no integer", ref_);
        break;
      }
      case InstrKind::Store:
      case InstrKind::StoreAdd:
        require(same_or_widened(operand(i, 0), i.dtype), "store {} of a {} value as {}", ref_, name(operand(i, 0)),
                name(i.dtype));
        mask(i, 1);
        memory(i, true);
        break;
      case InstrKind::Accumulate:
        require(loop(), "accumulate {} outside a loop stage", ref_);
        require(operand(i, 0) == i.dtype, "accumulate {} of a {} value", ref_, name(operand(i, 0)));
        require(i.dtype != DType::F16 && i.dtype != DType::BF16, "accumulate {} in a half type", ref_);
        if (i.reduce == ReduceOp::ArgMax || i.reduce == ReduceOp::ArgMin) {
          require(operand(i, 1) == DType::I64, "the position of accumulate {} is not i64", ref_);
        }
        break;
      case InstrKind::Result: {
        bool earlier = i.in[0] < k_.instrs.size() && stage_of_[i.in[0]] >= 0 && stage_of_[i.in[0]] < stage_ &&
                       k_.instrs[i.in[0]].kind == InstrKind::Accumulate;
        require(earlier, "result {} does not name an accumulation of an earlier stage", ref_);
        require(i.imm == 1 || i.dtype == k_.instrs[i.in[0]].dtype, "result {} has another type than its accumulation",
                ref_);
        break;
      }
      case InstrKind::Scan: {
        require(loop(), "scan {} outside a loop stage", ref_);
        auto inner = std::count_if(k_.ranges.begin(), k_.ranges.end(),
                                   [](const Range& r) { return r.kind == RangeKind::Inner; });
        require(inner == 1, "scan {} needs exactly one inner range", ref_);
        require(operand(i, 0) == i.dtype, "scan {} of a {} value", ref_, name(operand(i, 0)));
        require(i.reduce != ReduceOp::ArgMax && i.reduce != ReduceOp::ArgMin, "scan {} of positions", ref_);
        break;
      }
      case InstrKind::RowStore:
      case InstrKind::RowLoad:
        require(loop(), "row access {} outside a loop stage", ref_);
        require(i.slot >= 0 && i.slot < static_cast<int>(k_.row_slots.size()), "instruction {} has no row", ref_);
        require(k_.row_slots[static_cast<size_t>(i.slot)] == i.dtype, "instruction {} has another type than its row",
                ref_);
        if (i.kind == InstrKind::RowStore)
          require(same_or_widened(operand(i, 0), i.dtype), "rowstore {} changes the type", ref_);
        break;
    }
  }

  void compute(const Instr& i) {
    int n = arity(i.prim);
    for (int a = 0; a < n; ++a) operand(i, static_cast<size_t>(a));
    DType t = compute_type(k_, i);
    require(t != DType::F16 && t != DType::BF16, "{} (instruction {}) computes in a half type", name(i.prim), ref_);
    for (int a = 0; a < n; ++a) {
      DType want = i.prim == Prim::Select && a == 0 ? DType::Bool : t;
      require(operand(i, static_cast<size_t>(a)) == want, "operand {} of {} (instruction {}) is {}, not {}", a,
              name(i.prim), ref_, name(operand(i, static_cast<size_t>(a))), name(want));
    }
    require(i.dtype == t || (yields_bool(i.prim) && i.dtype == DType::Bool), "{} (instruction {}) of {} yields {}",
            name(i.prim), ref_, name(t), name(i.dtype));
  }

  const Kernel& k_;
  std::vector<int> stage_of_;
  int stage_ = 0;
  Ref ref_ = 0;
};

}  // namespace

void verify(const Kernel& k) { Verifier(k).run(); }

}  // namespace vesta::loops
