#include "loops/neighbours.h"

#include <algorithm>
#include <unordered_set>

namespace vesta::loops {

std::vector<char> indices_of_pieces(std::span<const Instr> instrs, Expr range, int64_t each) {
  std::vector<char> is(instrs.size(), 0);
  for (Ref r = 0; r < instrs.size(); ++r) {
    const Instr& i = instrs[r];
    if (i.kind != InstrKind::Index) continue;
    const auto step = coefficient_of(i.index, range);
    is[r] = step && step->is_constant(1) && provably_divisible(i.index - range, each);
  }
  const auto compares = [&](const Instr& i) {
    if (i.kind != InstrKind::Compute || (i.prim != Prim::Lt && i.prim != Prim::Ge) || i.in[1] == kNoRef) return false;
    const Instr& with = instrs[i.in[1]];
    return with.kind == InstrKind::Constant && is_integral(with.dtype) && with.imm % each == 0;
  };
  for (const Instr& i : instrs)
    for (size_t k = 0; k < i.in.size(); ++k)
      if (i.in[k] != kNoRef && is[i.in[k]] && !(k == 0 && compares(i))) is[i.in[k]] = 0;
  return is;
}

std::vector<char> differing(std::span<const Instr> instrs, Expr range, int64_t each) {
  const std::vector<char> pieces = indices_of_pieces(instrs, range, each);
  std::unordered_set<Expr> symbols = {range};
  std::vector<char> differs(instrs.size(), 0);
  for (Ref r = 0; r < instrs.size(); ++r) {
    const Instr& i = instrs[r];
    if (has_index(i.kind) && !pieces[r])
      for (const Expr e : symbols_of(i.index)) differs[r] |= static_cast<char>(symbols.contains(e));
    for (const Ref o : i.in)
      if (o != kNoRef) differs[r] |= differs[o];
    if (differs[r] && i.kind == InstrKind::Indirect) symbols.insert(i.index);
  }
  return differs;
}

}  // namespace vesta::loops
