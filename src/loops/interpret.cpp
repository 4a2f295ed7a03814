#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/check.h"
#include "loops/kernel.h"
#include "loops/scalar.h"

namespace vesta::loops {

namespace {

// A running reduction. Floating sums run in long double, so that the interpreter is the reference for generated code.
struct Accumulator {
  bool empty = true;
  Scalar value;
  long double sum = 0;
  int64_t position = 0;
};

Scalar identity(ReduceOp op, DType t) {
  double infinity = std::numeric_limits<double>::infinity();
  bool low = op == ReduceOp::Max || op == ReduceOp::ArgMax;
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Any: return from_integer(t, 0);
    case ReduceOp::Prod:
    case ReduceOp::All: return from_integer(t, 1);
    default: break;
  }
  if (is_float(t)) return from_double(t, low ? -infinity : infinity);
  if (t == DType::Bool) return from_integer(t, low ? 0 : 1);
  int bits = static_cast<int>(8 * element_size(t));
  if (!is_signed(t)) return from_integer(t, low ? 0 : -1);
  int64_t smallest = static_cast<int64_t>(~0ull << (bits - 1));
  return from_integer(t, low ? smallest : ~smallest);
}

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

class Interpreter {
 public:
  Interpreter(const Kernel& k, std::span<void* const> buffers, std::span<const int64_t> sizes)
      : k_(k), buffers_(buffers), values_(k.instrs.size()), accumulators_(k.instrs.size()), rows_(k.row_slots.size()) {
    VESTA_CHECK(sizes.size() == k.sizes.size() && buffers.size() == k.buffers.size(),
                "kernel called with wrong arguments");
    for (size_t i = 0; i < sizes.size(); ++i) symbols_[k.sizes[i]] = sizes[i];
    for (const Range& r : k.ranges) extents_.push_back(eval(r.extent));
    inner_elements_ = 1;
    for (size_t i = 0; i < k.ranges.size(); ++i) {
      if (k.ranges[i].kind == RangeKind::Inner) inner_elements_ *= extents_[i];
    }
    for (auto& row : rows_) row.resize(static_cast<size_t>(inner_elements_));
  }

  void run(int64_t begin, int64_t end) {
    bool columns =
        k_.vector >= 0 && k_.block > 0 && k_.ranges[static_cast<size_t>(k_.vector)].kind == RangeKind::Parallel;
    for (int64_t item = begin; item < end; ++item) {
      int64_t rest = item, first = 0, last = 1;
      for (size_t i = k_.ranges.size(); i-- > 0;) {
        if (k_.ranges[i].kind != RangeKind::Parallel) continue;
        bool blocked = columns && static_cast<int>(i) == k_.vector;
        int64_t count = blocked ? (extents_[i] + k_.block - 1) / k_.block : extents_[i];
        int64_t at = rest % count;
        rest /= count;
        if (blocked) {
          first = at * k_.block;
          last = std::min(first + k_.block, extents_[i]);
        } else {
          symbols_[k_.ranges[i].var] = at;
        }
      }
      for (int64_t column = first; column < last; ++column) {
        if (columns) symbols_[k_.ranges[static_cast<size_t>(k_.vector)].var] = column;
        stages();
      }
    }
  }

 private:
  void stages() {
    for (Accumulator& a : accumulators_) a = {};
    for (const Stage& s : k_.stages) {
      if (!s.loop) {
        for (Ref r : s.body) instr(r, 0);
        continue;
      }
      for (int64_t at = 0; at < inner_elements_; ++at) {
        int64_t rest = at;
        for (size_t i = k_.ranges.size(); i-- > 0;) {
          if (k_.ranges[i].kind != RangeKind::Inner) continue;
          symbols_[k_.ranges[i].var] = rest % extents_[i];
          rest /= extents_[i];
        }
        for (Ref r : s.body) instr(r, at);
      }
    }
  }

  int64_t eval(Expr e) {
    return evaluate(e, [&](Expr s) {
      auto it = symbols_.find(s);
      VESTA_CHECK(it != symbols_.end(), "symbol {} has no value", to_string(s));
      return it->second;
    });
  }

  char* element(const Instr& i) {
    size_t b = static_cast<size_t>(i.buffer);
    return static_cast<char*>(buffers_[b]) + eval(i.index) * element_size(k_.buffers[b].dtype);
  }

  void instr(Ref r, int64_t at) {
    const Instr& i = k_.instrs[r];
    auto in = [&](size_t n) { return i.in[n] == kNoRef ? Scalar{} : values_[i.in[n]]; };
    auto masked_off = [&](size_t n) { return i.in[n] != kNoRef && values_[i.in[n]].i == 0; };
    Scalar& out = values_[r];
    switch (i.kind) {
      case InstrKind::Constant:
        out = is_float(i.dtype) ? from_double(i.dtype, i.fimm) : from_integer(i.dtype, i.imm);
        break;
      case InstrKind::Index: out = from_integer(i.dtype, eval(i.index)); break;
      case InstrKind::Load: out = masked_off(0) ? Scalar{} : load(i.dtype, element(i)); break;
      case InstrKind::Compute: out = compute(i.prim, compute_type(k_, i), in(0), in(1), in(2)); break;
      case InstrKind::Cast: out = cast(value_type(k_, i.in[0]), i.dtype, in(0)); break;
      case InstrKind::Bitcast: out = bitcast(value_type(k_, i.in[0]), i.dtype, in(0)); break;
      case InstrKind::Indirect: symbols_[i.index] = in(0).i; break;
      case InstrKind::Store:
        if (!masked_off(1)) store(i.dtype, element(i), in(0));
        break;
      case InstrKind::StoreAdd:
        if (!masked_off(1)) {
          char* p = element(i);
          store(i.dtype, p, compute(Prim::Add, opmath(i.dtype), load(i.dtype, p), in(0), {}));
        }
        break;
      case InstrKind::Accumulate: accumulate(i, accumulators_[r], in(0), in(1).i); break;
      case InstrKind::Result: {
        const Instr& source = k_.instrs[i.in[0]];
        const Accumulator& a = accumulators_[i.in[0]];
        if (i.imm == 1) {
          out.i = a.position;
        } else if (a.empty) {
          out = identity(source.reduce, source.dtype);
        } else if (source.reduce == ReduceOp::Sum && is_float(source.dtype)) {
          out = from_double(source.dtype, static_cast<double>(a.sum));
        } else {
          out = a.value;
        }
        break;
      }
      case InstrKind::Scan: {
        Accumulator& a = accumulators_[r];
        accumulate(i, a, in(0), 0);
        out =
            i.reduce == ReduceOp::Sum && is_float(i.dtype) ? from_double(i.dtype, static_cast<double>(a.sum)) : a.value;
        break;
      }
      case InstrKind::RowStore:
        rows_[static_cast<size_t>(i.slot)][static_cast<size_t>(at)] = cast(value_type(k_, i.in[0]), i.dtype, in(0));
        break;
      case InstrKind::RowLoad: out = rows_[static_cast<size_t>(i.slot)][static_cast<size_t>(at)]; break;
    }
  }

  static void accumulate(const Instr& i, Accumulator& a, Scalar x, int64_t position) {
    bool first = a.empty;
    a.empty = false;
    if (i.reduce == ReduceOp::ArgMax || i.reduce == ReduceOp::ArgMin) {
      bool x_nan = is_float(i.dtype) && std::isnan(x.f),
           best_nan = !first && is_float(i.dtype) && std::isnan(a.value.f);
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

  const Kernel& k_;
  std::span<void* const> buffers_;
  std::unordered_map<Expr, int64_t> symbols_;
  std::vector<int64_t> extents_;
  int64_t inner_elements_ = 1;
  std::vector<Scalar> values_;
  std::vector<Accumulator> accumulators_;
  std::vector<std::vector<Scalar>> rows_;
};

}  // namespace

void interpret(const Kernel& k, std::span<void* const> buffers, std::span<const int64_t> sizes, int64_t begin,
               int64_t end) {
  Interpreter(k, buffers, sizes).run(begin, end);
}

}  // namespace vesta::loops
