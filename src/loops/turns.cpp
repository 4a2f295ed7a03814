#include "loops/turns.h"

namespace vesta::loops {
namespace {

std::optional<Turn> turn_of(std::span<const Instr> instrs, const Instr& i, Expr var, Expr column) {
  const bool orders = i.prim == Prim::Lt || i.prim == Prim::Le || i.prim == Prim::Gt || i.prim == Prim::Ge;
  if (i.kind != InstrKind::Compute || !orders) return std::nullopt;
  const Instr &left = instrs[i.in[0]], &right = instrs[i.in[1]];
  const auto a = index_or_constant(left), b = index_or_constant(right);
  if (!a || !b || left.dtype != DType::I64 || right.dtype != DType::I64) return std::nullopt;
  const Expr difference = *a - *b;
  const auto slope = coefficient_of(difference, var);
  if (!slope || !(slope->is_constant(1) || slope->is_constant(-1))) return std::nullopt;
  const Expr rest = difference - *slope * column;
  if (!rest.is_constant()) return std::nullopt;
  // A rising difference changes the comparison where it reaches 0 (Lt, Ge) or exceeds it; a falling one where it falls
  // below 0 (Lt, Ge) or reaches it.
  const bool rises = slope->is_constant(1), less = i.prim == Prim::Lt || i.prim == Prim::Le;
  const bool with_zero = i.prim == Prim::Lt || i.prim == Prim::Ge;
  const int64_t zero = rises ? -rest.constant() : rest.constant();
  return Turn{zero + (rises == with_zero ? 0 : 1), less == rises};
}

}  // namespace

std::optional<Expr> index_or_constant(const Instr& i) {
  if (i.kind == InstrKind::Index) return i.index;
  if (i.kind == InstrKind::Constant && !is_float(i.dtype)) return Expr(i.imm);
  return std::nullopt;
}

Turns turns_along(std::span<const Instr> instrs, Expr var, Expr column, int64_t extent) {
  Turns out;
  for (Ref r = 0; r < instrs.size(); ++r) {
    const auto turn = turn_of(instrs, instrs[r], var, column);
    if (!turn) continue;
    out.conditions.emplace(r, *turn);
    if (turn->place > 0 && turn->place < extent) out.places.insert(turn->place);
  }
  return out;
}

bool divides_row(const Turns& turns, int64_t vectors, size_t instrs) {
  constexpr size_t kMostTurns = 8, kMostInstructions = 1600;  // of all parts together
  const size_t places = turns.places.size();
  return places > 0 && places <= kMostTurns && (3 * places + 3) * instrs <= kMostInstructions &&
         vectors >= 4 * static_cast<int64_t>(places);
}

}  // namespace vesta::loops
