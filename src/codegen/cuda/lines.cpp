#include "codegen/cuda/lines.h"

#include "base/check.h"

namespace vesta::codegen {
namespace {

// Whether every index and every position provably fits in 32 bits.
bool fits_int(const loops::Kernel& k) {
  const auto fits = [](Expr e) {
    const auto low = lower_bound(e), high = upper_bound(e);
    return low && high && *low >= -(int64_t{1} << 31) && *high < (int64_t{1} << 31) - 2048;
  };
  const int64_t team = k.threads.team * k.threads.parts;
  bool all = fits(loops::work_items(k) * Expr(team)) && fits(loops::row_elements(k) + Expr(team * k.threads.each));
  for (const loops::Instr& i : k.instrs)
    if (loops::has_index(i.kind)) all &= fits(i.index);
  return all;
}

}  // namespace

KernelLines::KernelLines(const loops::Kernel& k) {
  if (fits_int(k)) index_ = "int";
  for (size_t i = 0; i < k.sizes.size(); ++i) names_[k.sizes[i]] = fmt::format("s{}", i);
}

std::string KernelLines::text(Expr e) const {
  if (e.is_constant()) {
    const bool wide = e.constant() > INT32_MAX || e.constant() < INT32_MIN;
    return fmt::format("{}{}", e.constant(), wide ? "ll" : "");
  }
  const ExprNode& n = *e.node();
  const auto joined = [&](const char* with) {
    std::string s = "(";
    for (size_t i = 0; i < n.operands.size(); ++i) s += (i ? with : "") + text(n.operands[i]);
    return s + ")";
  };
  const auto called = [&](const char* f) {
    return fmt::format("{}<{}>({}, {})", f, index_, text(n.operands[0]), text(n.operands[1]));
  };
  const bool plain = n.operands.size() == 2 && lower_bound(n.operands[0]).value_or(-1) >= 0 &&
                     lower_bound(n.operands[1]).value_or(-1) >= 0;
  switch (n.kind) {
    case ExprKind::Symbol: {
      const auto it = names_.find(e);
      VESTA_CHECK(it != names_.end(), "{} has no value here", n.name);
      return it->second;
    }
    case ExprKind::Product: return joined(" * ");
    case ExprKind::FloorDiv: return plain ? joined(" / ") : called("floor_div");
    case ExprKind::Mod: return plain ? joined(" % ") : called("floor_mod");
    case ExprKind::Min: return called("v_min");
    case ExprKind::Max: return called("v_max");
    case ExprKind::Sum: break;
  }
  std::string s = "(";
  for (size_t i = 0; i < n.terms.size(); ++i) {
    const Term& t = n.terms[i];
    s += i ? " + " : "";
    s += t.coefficient == 1 ? text(t.factor) : fmt::format("{} * {}", text(Expr(t.coefficient)), text(t.factor));
  }
  if (n.constant != 0) s += fmt::format(" + {}", text(Expr(n.constant)));
  return s + ")";
}

}  // namespace vesta::codegen
