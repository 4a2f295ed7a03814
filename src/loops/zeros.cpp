#include "loops/zeros.h"

#include <algorithm>

#include "loops/scalar.h"

namespace vesta::loops {
namespace {

class Zeros {
 public:
  explicit Zeros(const Kernel& k) : k_(k), values_(k.instrs.size()) {}

  bool run() {
    bool places = false;
    for (const Stage& s : k_.stages)
      for (Ref r : s.body) {
        const Instr& i = k_.instrs[r];
        values_[r] = value(r);
        if (i.kind == InstrKind::Indirect) {
          places = true;
          if (!is_zero(i.in[0]) || (i.in[1] != kNoRef && !is_true(i.in[1]))) return false;
        }
        if ((i.kind == InstrKind::Store || i.kind == InstrKind::StoreAdd) && names_place(i.index)) return false;
      }
    return !places || !reads_what_it_writes();
  }

 private:
  bool is_zero(Ref r) const { return values_[r] && values_[r]->i == 0; }
  bool is_true(Ref r) const { return values_[r] && values_[r]->i != 0; }

  static bool names_place(Expr index) {
    const auto symbols = symbols_of(index);
    return std::any_of(symbols.begin(), symbols.end(),
                       [](Expr s) { return s.node()->symbol_kind == SymbolKind::Indirect; });
  }

  // An element that one launch writes is not zero in the next one.
  bool reads_what_it_writes() const {
    return std::any_of(k_.instrs.begin(), k_.instrs.end(), [&](const Instr& i) {
      return i.kind == InstrKind::Load && k_.buffers[static_cast<size_t>(i.buffer)].written;
    });
  }

  // The value of an instruction that is the same in every iteration. Sizes are those of the hints.
  std::optional<Scalar> value(Ref r) const {
    const Instr& i = k_.instrs[r];
    const auto in = [&](size_t n) { return i.in[n] == kNoRef ? std::optional(Scalar{}) : values_[i.in[n]]; };
    switch (i.kind) {
      case InstrKind::Constant: return is_float(i.dtype) ? from_double(i.dtype, i.fimm) : from_integer(i.dtype, i.imm);
      case InstrKind::Load: return Scalar{};
      case InstrKind::Index: {
        const auto symbols = symbols_of(i.index);
        const bool same = std::all_of(symbols.begin(), symbols.end(),
                                      [](Expr s) { return s.node()->symbol_kind == SymbolKind::Size; });
        return same ? std::optional(from_integer(i.dtype, hint(i.index))) : std::nullopt;
      }
      case InstrKind::Cast: return in(0) ? std::optional(cast(value_type(k_, i.in[0]), i.dtype, *in(0))) : std::nullopt;
      case InstrKind::Compute: {
        const auto a = in(0), b = in(1), c = in(2);
        return a && b && c ? std::optional(compute(i.prim, compute_type(k_, i), *a, *b, *c)) : std::nullopt;
      }
      default: return std::nullopt;
    }
  }

  const Kernel& k_;
  std::vector<std::optional<Scalar>> values_;
};

}  // namespace

bool runs_on_zeros(const Kernel& k) { return Zeros(k).run(); }

}  // namespace vesta::loops
