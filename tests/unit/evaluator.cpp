#include "evaluator.h"

#include <cmath>

#include "base/check.h"
#include "elements.h"

namespace vesta::loops {

namespace {

Scalar combine(ReduceOp op, DType t, Scalar a, Scalar b) {
  switch (op) {
    case ReduceOp::Sum: return compute(Prim::Add, t, a, b, {});
    case ReduceOp::Prod: return compute(Prim::Mul, t, a, b, {});
    case ReduceOp::Any: return from_integer(t, a.i != 0 || b.i != 0);
    case ReduceOp::All: return from_integer(t, a.i != 0 && b.i != 0);
    case ReduceOp::Max: return compute(Prim::Max, t, a, b, {});
    default: return compute(Prim::Min, t, a, b, {});
  }
}

}  // namespace

Evaluator::Evaluator(std::span<const Instr> instrs, std::span<void* const> buffers, std::span<const Expr> symbols,
                     std::span<const int64_t> sizes)
    : reads_(buffers.begin(), buffers.end()),
      values_(instrs.size()),
      instrs_(instrs),
      buffers_(buffers),
      accumulators_(instrs.size()) {
  VESTA_CHECK(sizes.size() == symbols.size(), "{} values of {} sizes", sizes.size(), symbols.size());
  for (size_t i = 0; i < sizes.size(); ++i) symbols_[symbols[i]] = sizes[i];
}

void Evaluator::restart() { accumulators_.assign(instrs_.size(), {}); }

int64_t Evaluator::eval(Expr e) const {
  return evaluate(e, [&](Expr s) {
    auto it = symbols_.find(s);
    VESTA_CHECK(it != symbols_.end(), "symbol {} has no value", to_string(s));
    return it->second;
  });
}

int64_t Evaluator::place(Ref r) {
  const int64_t at = eval(instrs_[r].index);
  before_access(r, at);
  return at * element_size(instrs_[r].dtype);
}

const void* Evaluator::source(Ref r) {
  return static_cast<const char*>(reads_[static_cast<size_t>(instrs_[r].buffer)]) + place(r);
}

void* Evaluator::target(Ref r) {
  return static_cast<char*>(buffers_[static_cast<size_t>(instrs_[r].buffer)]) + place(r);
}

void Evaluator::instr(Ref r) {
  const Instr& i = instrs_[r];
  auto in = [&](size_t n) { return operand(i, n); };
  auto masked_off = [&](size_t n) { return i.in[n] != kNoRef && values_[i.in[n]].i == 0; };
  Scalar& out = values_[r];
  switch (i.kind) {
    case InstrKind::Constant:
      out = is_float(i.dtype) ? from_double(i.dtype, i.fimm) : from_integer(i.dtype, i.imm);
      break;
    case InstrKind::Index: out = from_integer(i.dtype, eval(i.index)); break;
    case InstrKind::Load: out = masked_off(0) ? Scalar{} : load(i.dtype, source(r)); break;
    case InstrKind::Compute: out = compute(i.prim, compute_type(instrs_, i), in(0), in(1), in(2)); break;
    case InstrKind::Cast: out = cast(value_type(instrs_, i.in[0]), i.dtype, in(0)); break;
    case InstrKind::Indirect:
      VESTA_CHECK(!masked_off(1), "instruction {} names the place {}, which there is not", r, in(0).i);
      symbols_[i.index] = in(0).i;
      break;
    case InstrKind::Store:
      if (!masked_off(1)) store(i.dtype, target(r), in(0));
      break;
    case InstrKind::StoreAdd:
      if (!masked_off(1)) {
        void* p = target(r);
        store(i.dtype, p, compute(Prim::Add, opmath(i.dtype), load(i.dtype, p), in(0), {}));
      }
      break;
    case InstrKind::Accumulate: accumulate(i, accumulators_[r], in(0), in(1).i); break;
    case InstrKind::Result: {
      const Accumulator& a = accumulators_[i.in[0]];
      if (i.imm == 1) {
        out.i = a.position;
      } else {
        out = value_of(instrs_[i.in[0]], a);
      }
      break;
    }
    case InstrKind::Scan:
      accumulate(i, accumulators_[r], in(0), 0);
      out = value_of(i, accumulators_[r]);
      break;
    case InstrKind::RowStore:
    case InstrKind::RowLoad: VESTA_CHECK(false, "a row belongs to a kernel's stages");
  }
}

Scalar Evaluator::value_of(const Instr& i, const Accumulator& a) {
  if (a.empty) return identity(i.reduce, i.dtype);
  if (i.reduce == ReduceOp::Sum && is_float(i.dtype)) return from_double(i.dtype, static_cast<double>(a.sum));
  return a.value;
}

void Evaluator::accumulate(const Instr& i, Accumulator& a, Scalar x, int64_t position) {
  bool first = a.empty;
  a.empty = false;
  if (i.reduce == ReduceOp::ArgMax || i.reduce == ReduceOp::ArgMin) {
    bool x_nan = is_float(i.dtype) && std::isnan(x.f), best_nan = !first && is_float(i.dtype) && std::isnan(a.value.f);
    bool beats = compute(i.reduce == ReduceOp::ArgMax ? Prim::Gt : Prim::Lt, i.dtype, x, a.value, {}).i != 0;
    if (first || (x_nan && !best_nan) || (!best_nan && beats)) {
      a.value = x;
      a.position = position;
    }
    return;
  }
  a.sum = first ? x.f : a.sum + x.f;
  a.value = first ? x : combine(i.reduce, i.dtype, a.value, x);
}

}  // namespace vesta::loops
