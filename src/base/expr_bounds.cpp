#include "base/expr_bounds.h"

#include <algorithm>
#include <map>

namespace vesta {

namespace {

using Bound = std::optional<int64_t>;

Bound add(Bound a, Bound b) {
  int64_t r;
  if (!a || !b || __builtin_add_overflow(*a, *b, &r)) return std::nullopt;
  return r;
}

Bound mul(Bound a, Bound b) {
  int64_t r;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &r)) return std::nullopt;
  return r;
}

Bound floor_div_bound(Bound a, int64_t b) {
  if (!a) return std::nullopt;
  int64_t q = *a / b;
  return (*a % b != 0 && (*a < 0) != (b < 0)) ? q - 1 : q;
}

}  // namespace

std::optional<int64_t> lower_bound(Expr e) { return e.is_constant() ? Bound(e.constant()) : e.node()->known_lower; }
std::optional<int64_t> upper_bound(Expr e) { return e.is_constant() ? Bound(e.constant()) : e.node()->known_upper; }

void detail::compute_bounds(ExprNode& n) {
  Bound lo, hi;
  switch (n.kind) {
    case ExprKind::Symbol:
      if (n.lower != INT64_MIN) lo = n.lower;
      if (n.upper) hi = upper_bound(*n.upper);
      break;
    case ExprKind::Sum:
      lo = hi = n.constant;
      for (const Term& t : n.terms) {
        Bound a = mul(t.coefficient, lower_bound(t.factor)), b = mul(t.coefficient, upper_bound(t.factor));
        if (t.coefficient < 0) std::swap(a, b);
        lo = add(lo, a);
        hi = add(hi, b);
      }
      break;
    case ExprKind::Product:
      lo = hi = 1;
      for (const Expr& f : n.operands) {
        if (lower_bound(f).value_or(-1) < 0) {
          lo = hi = std::nullopt;
          break;
        }
        lo = mul(lo, lower_bound(f));
        hi = mul(hi, upper_bound(f));
      }
      break;
    case ExprKind::FloorDiv: {
      Expr a = n.operands[0], b = n.operands[1];
      Bound b_lo = lower_bound(b), b_hi = upper_bound(b);
      if (!b_lo || *b_lo < 1) break;
      Bound a_lo = lower_bound(a), a_hi = upper_bound(a);
      if (a_lo) lo = *a_lo >= 0 ? (b_hi ? floor_div_bound(a_lo, *b_hi) : Bound(0)) : floor_div_bound(a_lo, *b_lo);
      if (a_hi) hi = *a_hi >= 0 ? floor_div_bound(a_hi, *b_lo) : (b_hi ? floor_div_bound(a_hi, *b_hi) : Bound(-1));
      break;
    }
    case ExprKind::Mod: {
      Expr a = n.operands[0], b = n.operands[1];
      if (lower_bound(b).value_or(0) < 1) break;
      lo = 0;
      hi = add(upper_bound(b), -1);
      if (lower_bound(a).value_or(-1) >= 0) {
        Bound a_hi = upper_bound(a);
        if (a_hi && (!hi || *a_hi < *hi)) hi = a_hi;
      }
      break;
    }
    case ExprKind::Min:
    case ExprKind::Max: {
      bool is_min = n.kind == ExprKind::Min;
      auto pick = [&](Bound a, Bound b, bool one_is_enough) -> Bound {
        if (a && b) return is_min ? std::min(*a, *b) : std::max(*a, *b);
        return one_is_enough ? (a ? a : b) : std::nullopt;
      };
      // max is at least each operand, min at most each.
      lo = pick(lower_bound(n.operands[0]), lower_bound(n.operands[1]), !is_min);
      hi = pick(upper_bound(n.operands[0]), upper_bound(n.operands[1]), is_min);
      break;
    }
  }
  n.known_lower = lo;
  n.known_upper = hi;
}

namespace {

// A polynomial over non-negative unknowns: each atom a is replaced by lower(a) + t_a.
using Powers = std::vector<Expr>;
struct PowersLess {
  bool operator()(const Powers& a, const Powers& b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                        [](Expr x, Expr y) { return x.before(y); });
  }
};
using Shifted = std::map<Powers, int64_t, PowersLess>;

bool add_to(Shifted& p, Powers powers, int64_t c) {
  std::sort(powers.begin(), powers.end(), [](Expr x, Expr y) { return x.before(y); });
  int64_t& slot = p[std::move(powers)];
  return !__builtin_add_overflow(slot, c, &slot);
}

// False if an atom has no known lower bound or the numbers grow too large.
bool shift(Expr e, Shifted& out) {
  auto term = [&](int64_t coefficient, std::span<const Expr> factors) {
    Shifted product{{Powers{}, coefficient}};
    for (const Expr& f : factors) {
      Bound lo = lower_bound(f);
      if (!lo) return false;
      Shifted next;
      for (const auto& [powers, c] : product) {
        int64_t scaled;
        if (__builtin_mul_overflow(c, *lo, &scaled) || !add_to(next, powers, scaled)) return false;
        Powers with = powers;
        with.push_back(f);
        if (!add_to(next, std::move(with), c)) return false;
      }
      product = std::move(next);
      if (product.size() > 64) return false;
    }
    for (const auto& [powers, c] : product) {
      if (!add_to(out, powers, c)) return false;
    }
    return true;
  };
  if (e.is_constant()) return add_to(out, {}, e.constant());
  const ExprNode& n = *e.node();
  auto one = [&](int64_t coefficient, Expr f) {
    if (f.node()->kind == ExprKind::Product) return term(coefficient, f.node()->operands);
    return term(coefficient, {&f, 1});
  };
  if (n.kind != ExprKind::Sum) return one(1, e);
  if (!add_to(out, {}, n.constant)) return false;
  return std::all_of(n.terms.begin(), n.terms.end(), [&](const Term& t) { return one(t.coefficient, t.factor); });
}

bool provably_non_negative(Expr e) {
  if (Bound lo = lower_bound(e)) {
    if (*lo >= 0) return true;
  }
  if (e.is_constant()) return e.constant() >= 0;
  if (Bound hi = upper_bound(e); hi && *hi < 0) return false;
  // Puts every bounded symbol at the end of its range at which e is least.
  for (bool changed = true; changed && !e.is_constant();) {
    changed = false;
    for (const Expr& s : symbols_of(e)) {
      if (!s.node()->upper) continue;
      std::optional<Expr> c = coefficient_of(e, s);
      if (!c) continue;
      bool up = upper_bound(*c).value_or(1) <= 0, down = lower_bound(*c).value_or(-1) >= 0;
      if (!up && !down) continue;
      Expr at = up ? *s.node()->upper : Expr(s.node()->lower);
      e = substitute(e, [&](Expr x) { return x == s ? at : x; });
      changed = true;
      break;
    }
  }
  Shifted polynomial;
  if (!shift(e, polynomial)) return false;
  return std::all_of(polynomial.begin(), polynomial.end(), [](const auto& t) { return t.second >= 0; });
}

}  // namespace

bool provably_equal(Expr a, Expr b) { return a == b || (a - b).is_constant(0); }
bool provably_less(Expr a, Expr b) {
  if (a.is_constant() && b.is_constant()) return a.constant() < b.constant();
  return provably_non_negative(b - a - 1);
}
bool provably_at_least(Expr a, Expr b) {
  if (a.is_constant() && b.is_constant()) return a.constant() >= b.constant();
  return provably_non_negative(a - b);
}
bool provably_divisible(Expr a, Expr b) {
  if (b.is_constant(0)) return false;
  return mod(a, b).is_constant(0);
}

}  // namespace vesta
