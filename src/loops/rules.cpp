#include "loops/rules.h"

#include <algorithm>

namespace vesta::loops {

void Rules::range(size_t i) const {
  const Range& r = ranges_[i];
  require(r.var.is_symbol() && r.var.node()->symbol_kind == SymbolKind::Loop, "range {} has no loop symbol", i);
  symbols(r.extent, false, false);
}

void Rules::symbols(Expr e, bool parallel, bool inner) const {
  for (Expr s : symbols_of(e)) {
    switch (s.node()->symbol_kind) {
      case SymbolKind::Size: require(is_size(s), "size {} is no argument", to_string(s)); break;
      case SymbolKind::Loop: {
        auto it = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& r) { return r.var == s; });
        require(it != ranges_.end(), "loop variable {} has no range", to_string(s));
        require(it->kind == RangeKind::Parallel ? parallel : inner, "loop variable {} is not in scope", to_string(s));
        break;
      }
      case SymbolKind::Indirect: {
        auto binds = [&](Ref r) {
          return instrs_[r].kind == InstrKind::Indirect && instrs_[r].index == s && visible(r);
        };
        bool bound = false;
        for (Ref r = 0; r < instrs_.size() && !bound; ++r) bound = binds(r);
        require(bound, "indirect symbol {} is not bound", to_string(s));
        break;
      }
    }
  }
}

// The type of an operand.
DType Rules::operand(const Instr& i, size_t n) const {
  require(i.in[n] != kNoRef, "instruction {} lacks operand {}", ref_, n);
  require(visible(i.in[n]), "instruction {} reads {} out of its scope", ref_, i.in[n]);
  const Instr& from = instrs_[i.in[n]];
  bool has_value = from.kind != InstrKind::Store && from.kind != InstrKind::StoreAdd &&
                   from.kind != InstrKind::RowStore && from.kind != InstrKind::Accumulate;
  require(has_value, "instruction {} reads {}, which has no value", ref_, i.in[n]);
  return value_type(instrs_, i.in[n]);
}

void Rules::mask(const Instr& i, size_t n) const {
  if (i.in[n] != kNoRef) require(operand(i, n) == DType::Bool, "the mask of instruction {} is not bool", ref_);
}

void Rules::memory(const Instr& i, bool write) const {
  require(i.buffer >= 0 && static_cast<size_t>(i.buffer) < buffer_count(), "instruction {} has no buffer", ref_);
  const KernelBuffer b = buffer(static_cast<size_t>(i.buffer));
  require(b.dtype == i.dtype, "instruction {} accesses a buffer of {} as {}", ref_, name(b.dtype), name(i.dtype));
  require(!write || b.written, "instruction {} stores to a buffer that is only read", ref_);
  symbols(i.index, true, in_loop());
  access(i);
}

bool Rules::same_or_widened(DType from, DType to) { return from == to || (is_narrow(to) && from == DType::F32); }

void Rules::instr(Ref r) {
  ref_ = r;
  const Instr& i = instrs_[r];
  require(element_size(i.dtype) > 0 && !is_complex(i.dtype), "instruction {} has type {}", ref_, name(i.dtype));
  switch (i.kind) {
    case InstrKind::Constant: break;
    case InstrKind::Index: symbols(i.index, true, in_loop()); break;
    case InstrKind::Load:
      mask(i, 0);
      memory(i, false);
      break;
    case InstrKind::Compute: compute(i); break;
    case InstrKind::Cast: operand(i, 0); break;
    case InstrKind::Indirect: {
      require(i.index.is_symbol() && i.index.node()->symbol_kind == SymbolKind::Indirect,
              "instruction {} binds no indirect symbol", ref_);
      require(is_integral(operand(i, 0)), "indirect {} binds a value that is no integer", ref_);
      mask(i, 1);
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
      require(in_loop(), "accumulate {} outside a loop stage", ref_);
      require(operand(i, 0) == i.dtype, "accumulate {} of a {} value", ref_, name(operand(i, 0)));
      require(!is_narrow(i.dtype), "accumulate {} in a narrow type", ref_);
      if (i.reduce == ReduceOp::ArgMax || i.reduce == ReduceOp::ArgMin) {
        require(operand(i, 1) == DType::I64, "the position of accumulate {} is not i64", ref_);
      }
      break;
    case InstrKind::Result: result(i); break;
    case InstrKind::Scan: {
      require(in_loop(), "scan {} outside a loop stage", ref_);
      auto inner =
          std::count_if(ranges_.begin(), ranges_.end(), [](const Range& r) { return r.kind == RangeKind::Inner; });
      require(inner == 1, "scan {} needs exactly one inner range", ref_);
      require(operand(i, 0) == i.dtype, "scan {} of a {} value", ref_, name(operand(i, 0)));
      require(i.reduce != ReduceOp::ArgMax && i.reduce != ReduceOp::ArgMin, "scan {} of positions", ref_);
      break;
    }
    case InstrKind::RowStore:
    case InstrKind::RowLoad: row(i); break;
  }
}

void Rules::compute(const Instr& i) const {
  int n = arity(i.prim);
  for (int a = 0; a < n; ++a) operand(i, static_cast<size_t>(a));
  DType t = compute_type(instrs_, i);
  require(!is_narrow(t), "{} (instruction {}) computes in a narrow type", name(i.prim), ref_);
  require(i.prim != Prim::Fma || is_float(t), "{} (instruction {}) computes in {}", name(i.prim), ref_, name(t));
  for (int a = 0; a < n; ++a) {
    DType want = i.prim == Prim::Select && a == 0 ? DType::Bool : t;
    require(operand(i, static_cast<size_t>(a)) == want, "operand {} of {} (instruction {}) is {}, not {}", a,
            name(i.prim), ref_, name(operand(i, static_cast<size_t>(a))), name(want));
  }
  require(i.dtype == t || (yields_bool(i.prim) && i.dtype == DType::Bool), "{} (instruction {}) of {} yields {}",
          name(i.prim), ref_, name(t), name(i.dtype));
}

}  // namespace vesta::loops
