#include "base/expr.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <unordered_map>

#include "base/check.h"
#include "base/checked_arithmetic.h"
#include "base/expr_bounds.h"
#include "base/hash_mix.h"

namespace vesta {

namespace {

// A polynomial under construction: a constant and terms in any order with distinct factors.
struct Poly {
  int64_t constant = 0;
  std::vector<Term> terms;

  void add(int64_t coefficient, Expr e) {
    if (coefficient == 0) return;
    if (e.is_constant()) {
      constant = checked_add(constant, checked_mul(coefficient, e.constant()));
      return;
    }
    if (e.node()->kind == ExprKind::Sum) {
      constant = checked_add(constant, checked_mul(coefficient, e.node()->constant));
      for (const Term& t : e.node()->terms) add_term(checked_mul(coefficient, t.coefficient), t.factor);
      return;
    }
    add_term(coefficient, e);
  }

  void add_term(int64_t coefficient, Expr factor) {
    for (size_t i = 0; i < terms.size(); ++i) {
      if (terms[i].factor == factor) {
        terms[i].coefficient = checked_add(terms[i].coefficient, coefficient);
        if (terms[i].coefficient == 0) terms.erase(terms.begin() + static_cast<int64_t>(i));
        return;
      }
    }
    if (coefficient != 0) terms.push_back({coefficient, factor});
  }
};

Poly poly_of(Expr e) {
  Poly p;
  p.add(1, e);
  return p;
}

ExprContext* context_of(const Poly& p) { return p.terms.empty() ? nullptr : p.terms[0].factor.node()->context; }

Expr find_recombination(Poly& p);

// Sorts the terms, recombines floor divisions with their moduli, and interns the result.
Expr finish(Poly p) {
  while (p.terms.size() > 1) {
    Expr replaced = find_recombination(p);
    if (replaced.is_constant(0)) break;
  }
  if (p.terms.empty()) return p.constant;
  if (p.terms.size() == 1 && p.constant == 0 && p.terms[0].coefficient == 1) return p.terms[0].factor;
  std::sort(p.terms.begin(), p.terms.end(), [](const Term& a, const Term& b) { return a.factor.before(b.factor); });
  ExprContext* context = context_of(p);
  ExprNode node{ExprKind::Sum, 0, context};
  node.constant = p.constant;
  node.terms = std::move(p.terms);
  return context->intern(std::move(node));
}

// The atoms of a factor: the factor itself, or the operands of a Product.
std::span<const Expr> atoms(const Expr& factor) {
  if (factor.node()->kind == ExprKind::Product) return factor.node()->operands;
  return {&factor, 1};
}

Expr product(Expr a, Expr b) {
  std::vector<Expr> all(atoms(a).begin(), atoms(a).end());
  all.insert(all.end(), atoms(b).begin(), atoms(b).end());
  std::sort(all.begin(), all.end(), [](Expr x, Expr y) { return x.before(y); });
  ExprNode node{ExprKind::Product, 0, a.node()->context};
  node.operands = std::move(all);
  return a.node()->context->intern(std::move(node));
}

Expr product_of(std::vector<Expr> factors, ExprContext* context) {
  if (factors.empty()) return 1;
  if (factors.size() == 1) return factors[0];
  ExprNode node{ExprKind::Product, 0, context};
  node.operands = std::move(factors);
  return context->intern(std::move(node));
}

// A single term, coefficient * atoms: the form in which divisors are handled.
struct Monomial {
  int64_t coefficient = 1;
  std::vector<Expr> factors;  // sorted
};

std::optional<Monomial> monomial_of(Expr e) {
  if (e.is_constant()) return Monomial{e.constant(), {}};
  Poly p = poly_of(e);
  if (p.constant != 0 || p.terms.size() != 1) return std::nullopt;
  auto a = atoms(p.terms[0].factor);
  return Monomial{p.terms[0].coefficient, {a.begin(), a.end()}};
}

Monomial term_monomial(const Term& t) {
  auto a = atoms(t.factor);
  return {t.coefficient, {a.begin(), a.end()}};
}

bool before(Expr a, Expr b) { return a.before(b); }

std::optional<Expr> divide(const Monomial& a, const Monomial& b, ExprContext* context) {
  if (b.coefficient == 0 || a.coefficient % b.coefficient != 0) return std::nullopt;
  if (!std::includes(a.factors.begin(), a.factors.end(), b.factors.begin(), b.factors.end(), before))
    return std::nullopt;
  std::vector<Expr> rest;
  std::set_difference(a.factors.begin(), a.factors.end(), b.factors.begin(), b.factors.end(), std::back_inserter(rest),
                      before);
  return Expr(a.coefficient / b.coefficient) * product_of(std::move(rest), context);
}

Monomial gcd(const Monomial& a, const Monomial& b) {
  Monomial g{std::gcd(a.coefficient, b.coefficient), {}};
  std::set_intersection(a.factors.begin(), a.factors.end(), b.factors.begin(), b.factors.end(),
                        std::back_inserter(g.factors), before);
  return g;
}

Expr to_expr(const Monomial& m, ExprContext* context) { return Expr(m.coefficient) * product_of(m.factors, context); }

// a = quotient * b + g * rest + small with 0 <= small < g and g * reduced == b, derived from facts about the symbols.
// Then a // b == quotient + rest // reduced and a % b == g * (rest % reduced) + small.
struct Division {
  Expr quotient;
  Expr rest;
  Expr reduced;
  Expr g = 1;
  Expr small;
};

Division divide_with_facts(Expr a, Expr b, ExprContext* context) {
  Division d;
  d.reduced = b;
  std::optional<Monomial> divisor = monomial_of(b);
  Poly all = poly_of(a);
  Poly rest, quotient;
  if (divisor) {
    for (const Term& t : all.terms) {
      if (auto q = divide(term_monomial(t), *divisor, context)) {
        quotient.add(1, *q);
      } else {
        rest.add_term(t.coefficient, t.factor);
      }
    }
    if (b.is_constant()) {
      quotient.constant = checked_add(quotient.constant, floor_div(all.constant, b.constant()));
      rest.constant = floor_mod(all.constant, b.constant());
    } else {
      rest.constant = all.constant;
    }
  } else if (a == b) {
    d.quotient = 1;
    d.rest = 0;
    return d;
  } else {
    rest = all;
  }
  d.quotient = finish(std::move(quotient));
  d.rest = finish(rest);
  if (d.rest.is_constant(0) || !divisor || !provably_at_least(b, 1)) return d;
  if (provably_at_least(d.rest, 0) && provably_less(d.rest, b)) {
    d.small = d.rest;
    d.rest = 0;
    d.g = b;
    d.reduced = 1;
    return d;
  }
  // Tries the largest common divisor first.
  std::vector<Monomial> candidates;
  for (const Term& t : rest.terms) {
    Monomial g = gcd(term_monomial(t), *divisor);
    if (g.coefficient > 1 || !g.factors.empty()) candidates.push_back(std::move(g));
  }
  std::sort(candidates.begin(), candidates.end(), [](const Monomial& x, const Monomial& y) {
    return std::pair(x.factors.size(), x.coefficient) > std::pair(y.factors.size(), y.coefficient);
  });
  for (const Monomial& g : candidates) {
    Expr ge = to_expr(g, context);
    if (!provably_at_least(ge, 1)) continue;
    Poly multiple, small;
    for (const Term& t : rest.terms) {
      if (auto q = divide(term_monomial(t), g, context)) {
        multiple.add(1, *q);
      } else {
        small.add_term(t.coefficient, t.factor);
      }
    }
    if (g.factors.empty()) {
      multiple.constant = floor_div(rest.constant, g.coefficient);
      small.constant = floor_mod(rest.constant, g.coefficient);
    } else {
      small.constant = rest.constant;
    }
    Expr s = finish(small);
    if (provably_at_least(s, 0) && provably_less(s, ge)) {
      Expr m = finish(multiple);
      Expr reduced = *divide(*divisor, g, context);
      // The quotient of the reduced division may simplify further.
      Division inner = divide_with_facts(m, reduced, context);
      d.quotient = d.quotient + inner.quotient;
      d.rest = inner.rest;
      d.reduced = inner.reduced;
      d.g = ge * inner.g;
      d.small = s + ge * inner.small;
      return d;
    }
  }
  return d;
}

ExprContext* context_of(Expr a, Expr b) { return (a.is_constant() ? b : a).node()->context; }

Expr intern_pair(ExprKind kind, Expr a, Expr b) {
  ExprContext* context = context_of(a, b);
  ExprNode node{kind, 0, context};
  node.operands = {a, b};
  return context->intern(std::move(node));
}

const ExprNode* as(Expr e, ExprKind kind) { return !e.is_constant() && e.node()->kind == kind ? e.node() : nullptr; }

// c*m*(x // m) + c*(x % m) == c*x, and c*k*((x // k) % m) + c*(x % k) == c*(x % (k*m)), and
// c*m*((x % k) // m) + c*(x % m) == c*(x % k) where m divides k. Rewrites one such pair in place and returns the
// non-zero Expr, if there is a pair.
Expr find_recombination(Poly& p) {
  for (size_t i = 0; i < p.terms.size(); ++i) {
    const ExprNode* modulus = as(p.terms[i].factor, ExprKind::Mod);
    if (!modulus) continue;
    int64_t c = p.terms[i].coefficient;
    Expr x = modulus->operands[0], m = modulus->operands[1];
    Expr quotient = floordiv(x, m);
    if (quotient.is_constant()) continue;
    auto partner = monomial_of(m * quotient);
    if (partner) {
      Expr factor = product_of(partner->factors, modulus->context);
      int64_t want = checked_mul(c, partner->coefficient);
      for (size_t j = 0; j < p.terms.size(); ++j) {
        if (j != i && p.terms[j].factor == factor && p.terms[j].coefficient == want) {
          p.terms.erase(p.terms.begin() + static_cast<int64_t>(std::max(i, j)));
          p.terms.erase(p.terms.begin() + static_cast<int64_t>(std::min(i, j)));
          p.add(c, x);
          return 1;
        }
      }
    }
    for (size_t j = 0; j < p.terms.size(); ++j) {
      if (j == i) continue;
      Monomial other = term_monomial(p.terms[j]);
      for (const Expr& atom : other.factors) {
        Expr joined = 0;
        if (const ExprNode* outer = as(atom, ExprKind::Mod)) {
          if (outer->operands[0] == quotient) joined = mod(x, m * outer->operands[1]);
        } else if (const ExprNode* part = as(atom, ExprKind::FloorDiv); part && part->operands[1] == m) {
          const ExprNode* whole = as(part->operands[0], ExprKind::Mod);
          if (whole && whole->operands[0] == x && provably_divisible(whole->operands[1], m)) joined = part->operands[0];
        }
        if (joined.is_constant()) continue;
        auto want = monomial_of(Expr(c) * m * atom);
        if (!want || want->coefficient != other.coefficient || want->factors != other.factors) continue;
        p.terms.erase(p.terms.begin() + static_cast<int64_t>(std::max(i, j)));
        p.terms.erase(p.terms.begin() + static_cast<int64_t>(std::min(i, j)));
        p.add(c, joined);
        return 1;
      }
    }
  }
  return 0;
}

}  // namespace

// ---- Expr -----------------------------------------------------------------------------------------------------------

Expr::Expr(int64_t constant) : bits_((static_cast<uintptr_t>(constant) << 1) | 1) {
  VESTA_USER_CHECK(this->constant() == constant, "size {} does not fit 63 bits", constant);
}

int64_t Expr::constant() const { return static_cast<int64_t>(bits_) >> 1; }

const ExprNode* Expr::node() const { return reinterpret_cast<const ExprNode*>(bits_); }

bool Expr::is_symbol() const { return !is_constant() && node()->kind == ExprKind::Symbol; }

bool Expr::before(const Expr& o) const {
  if (is_constant() != o.is_constant()) return is_constant();
  if (is_constant()) return constant() < o.constant();
  return node()->id < o.node()->id;
}

Expr operator+(Expr a, Expr b) {
  if (a.is_constant() && b.is_constant()) return checked_add(a.constant(), b.constant());
  if (a.is_constant(0)) return b;
  if (b.is_constant(0)) return a;
  Poly p = poly_of(a);
  p.add(1, b);
  return finish(std::move(p));
}

Expr operator-(Expr a, Expr b) {
  if (a.is_constant() && b.is_constant()) return checked_add(a.constant(), -b.constant());
  if (b.is_constant(0)) return a;
  Poly p = poly_of(a);
  p.add(-1, b);
  return finish(std::move(p));
}

Expr operator-(Expr a) { return Expr(0) - a; }

Expr operator*(Expr a, Expr b) {
  if (a.is_constant() && b.is_constant()) return checked_mul(a.constant(), b.constant());
  if (a.is_constant(1)) return b;
  if (b.is_constant(1)) return a;
  if (a.is_constant(0) || b.is_constant(0)) return 0;
  Poly r;
  if (a.is_constant() || b.is_constant()) {
    int64_t c = a.is_constant() ? a.constant() : b.constant();
    r.add(c, a.is_constant() ? b : a);
    return finish(std::move(r));
  }
  Poly pa = poly_of(a), pb = poly_of(b);
  r.constant = checked_mul(pa.constant, pb.constant);
  for (const Term& t : pa.terms) {
    r.add(checked_mul(t.coefficient, pb.constant), t.factor);
    for (const Term& u : pb.terms) r.add(checked_mul(t.coefficient, u.coefficient), product(t.factor, u.factor));
  }
  for (const Term& u : pb.terms) r.add(checked_mul(u.coefficient, pa.constant), u.factor);
  return finish(std::move(r));
}

Expr floordiv(Expr a, Expr b) {
  VESTA_USER_CHECK(!b.is_constant(0), "division of the size {} by zero", to_string(a));
  if (a.is_constant() && b.is_constant()) return floor_div(a.constant(), b.constant());
  if (b.is_constant(1)) return a;
  if (a.is_constant(0)) return 0;
  if (b.is_constant(-1)) return -a;
  Division d = divide_with_facts(a, b, context_of(a, b));
  if (d.rest.is_constant(0)) return d.quotient;
  if (d.rest.is_constant() && d.reduced.is_constant()) {
    return d.quotient + floor_div(d.rest.constant(), d.reduced.constant());
  }
  if (d.reduced.is_constant(1)) return d.quotient + d.rest;
  // (x // k + c) // m == (x + c*k) // (k*m) for positive k and m
  Poly rest = poly_of(d.rest);
  if (rest.terms.size() == 1 && rest.terms[0].coefficient == 1) {
    if (const ExprNode* inner = as(rest.terms[0].factor, ExprKind::FloorDiv)) {
      Expr k = inner->operands[1];
      if (provably_at_least(k, 1) && provably_at_least(d.reduced, 1)) {
        return d.quotient + floordiv(inner->operands[0] + Expr(rest.constant) * k, k * d.reduced);
      }
    }
  }
  return d.quotient + intern_pair(ExprKind::FloorDiv, d.rest, d.reduced);
}

Expr mod(Expr a, Expr b) {
  VESTA_USER_CHECK(!b.is_constant(0), "modulus of the size {} by zero", to_string(a));
  if (a.is_constant() && b.is_constant()) return floor_mod(a.constant(), b.constant());
  if (b.is_constant(1) || b.is_constant(-1) || a.is_constant(0)) return 0;
  Division d = divide_with_facts(a, b, context_of(a, b));
  if (d.rest.is_constant(0)) return d.small;
  if (d.rest.is_constant() && d.reduced.is_constant()) {
    return d.g * Expr(floor_mod(d.rest.constant(), d.reduced.constant())) + d.small;
  }
  if (d.reduced.is_constant(1)) return d.small;
  if (const ExprNode* inner = as(d.rest, ExprKind::Mod)) {
    if (provably_divisible(inner->operands[1], d.reduced)) return d.g * mod(inner->operands[0], d.reduced) + d.small;
  }
  return d.g * intern_pair(ExprKind::Mod, d.rest, d.reduced) + d.small;
}

Expr ceildiv(Expr a, Expr b) { return floordiv(a + b - 1, b); }

// The smaller of a and b if `kind` is Min, else the larger.
static Expr extremum(ExprKind kind, Expr a, Expr b) {
  const bool least = kind == ExprKind::Min;
  if (provably_at_least(least ? b : a, least ? a : b)) return a;
  if (provably_at_least(least ? a : b, least ? b : a)) return b;
  return b.before(a) ? intern_pair(kind, b, a) : intern_pair(kind, a, b);
}
Expr min(Expr a, Expr b) { return extremum(ExprKind::Min, a, b); }
Expr max(Expr a, Expr b) { return extremum(ExprKind::Max, a, b); }

// ---- ExprContext ----------------------------------------------------------------------------------------------------

struct ExprContext::Impl {
  std::deque<ExprNode> nodes;
  std::unordered_multimap<size_t, const ExprNode*> index;
  std::vector<Expr> symbols;
};

ExprContext::ExprContext() : impl_(std::make_unique<Impl>()) {}
ExprContext::~ExprContext() = default;

namespace {

size_t hash_of(const ExprNode& n) {
  size_t h = mix_hash(static_cast<size_t>(n.kind), static_cast<size_t>(n.constant));
  for (const Term& t : n.terms) h = mix_hash(mix_hash(h, static_cast<size_t>(t.coefficient)), t.factor.hash());
  for (const Expr& e : n.operands) h = mix_hash(h, e.hash());
  return h;
}

bool same(const ExprNode& a, const ExprNode& b) {
  auto same_terms = [&] {
    return std::equal(a.terms.begin(), a.terms.end(), b.terms.begin(), b.terms.end(), [](const Term& x, const Term& y) {
      return x.coefficient == y.coefficient && x.factor == y.factor;
    });
  };
  return a.kind == b.kind && a.constant == b.constant && a.operands == b.operands && same_terms();
}

// The value of a node, which is no symbol, whose operands have the values that `value` gives.
template <class F>
int64_t value_of_node(const ExprNode& n, F&& value) {
  switch (n.kind) {
    case ExprKind::Symbol: break;
    case ExprKind::Sum: {
      int64_t r = n.constant;
      for (const Term& t : n.terms) r = checked_add(r, checked_mul(t.coefficient, value(t.factor)));
      return r;
    }
    case ExprKind::Product: {
      int64_t r = 1;
      for (const Expr& e : n.operands) r = checked_mul(r, value(e));
      return r;
    }
    case ExprKind::FloorDiv: return floor_div(value(n.operands[0]), value(n.operands[1]));
    case ExprKind::Mod: return floor_mod(value(n.operands[0]), value(n.operands[1]));
    case ExprKind::Min: return std::min(value(n.operands[0]), value(n.operands[1]));
    case ExprKind::Max: return std::max(value(n.operands[0]), value(n.operands[1]));
  }
  VESTA_CHECK(false, "a symbol has no value of its own");
}

int64_t hint_of(const ExprNode& n) {
  // Loop variables have the hint 0. A division by one of them says nothing about the program.
  if ((n.kind == ExprKind::FloorDiv || n.kind == ExprKind::Mod) && hint(n.operands[1]) == 0) return 0;
  return value_of_node(n, hint);
}

}  // namespace

Expr ExprContext::intern(ExprNode&& node) {
  size_t h = hash_of(node);
  auto [begin, end] = impl_->index.equal_range(h);
  for (auto it = begin; it != end; ++it) {
    if (same(*it->second, node)) return Expr(it->second);
  }
  node.id = static_cast<uint32_t>(impl_->nodes.size());
  node.context = this;
  impl_->nodes.push_back(std::move(node));
  ExprNode& stored = impl_->nodes.back();
  stored.known_hint = hint_of(stored);
  detail::compute_bounds(stored);
  impl_->index.emplace(h, &stored);
  return Expr(&stored);
}

namespace {
ExprNode symbol_node(SymbolKind kind, std::string name) {
  ExprNode n{ExprKind::Symbol, 0, nullptr};
  n.symbol_kind = kind;
  n.name = std::move(name);
  return n;
}
}  // namespace

// Symbols are never merged: each is an atom of its own even if names repeat.
static Expr add_symbol(ExprContext* context, std::deque<ExprNode>& nodes, std::vector<Expr>& symbols, ExprNode node) {
  node.id = static_cast<uint32_t>(nodes.size());
  node.symbol = static_cast<uint32_t>(symbols.size());
  node.context = context;
  node.known_hint = node.hint;
  nodes.push_back(std::move(node));
  detail::compute_bounds(nodes.back());
  symbols.emplace_back(&nodes.back());
  return symbols.back();
}

Expr ExprContext::size_symbol(std::string name, int64_t hint, int64_t lower) {
  ExprNode n = symbol_node(SymbolKind::Size, std::move(name));
  n.hint = hint;
  n.lower = lower;
  return add_symbol(this, impl_->nodes, impl_->symbols, std::move(n));
}

Expr ExprContext::loop_symbol(std::string name, Expr extent) {
  ExprNode n = symbol_node(SymbolKind::Loop, std::move(name));
  n.upper = extent - 1;
  return add_symbol(this, impl_->nodes, impl_->symbols, std::move(n));
}

Expr ExprContext::indirect_symbol(std::string name) {
  ExprNode n = symbol_node(SymbolKind::Indirect, std::move(name));
  n.lower = INT64_MIN;
  return add_symbol(this, impl_->nodes, impl_->symbols, std::move(n));
}

std::span<const Expr> ExprContext::symbols() const { return impl_->symbols; }

// ---- Queries --------------------------------------------------------------------------------------------------------

int64_t hint(Expr e) { return e.is_constant() ? e.constant() : e.node()->known_hint; }

int64_t evaluate(Expr e, const std::function<int64_t(Expr)>& value_of) {
  if (e.is_constant()) return e.constant();
  if (e.node()->kind == ExprKind::Symbol) return value_of(e);
  return value_of_node(*e.node(), [&](Expr operand) { return evaluate(operand, value_of); });
}

Expr substitute(Expr e, const std::function<Expr(Expr)>& value_of) {
  if (e.is_constant()) return e;
  const ExprNode& n = *e.node();
  switch (n.kind) {
    case ExprKind::Symbol: return value_of(e);
    case ExprKind::Sum: {
      // The values may belong to another context, so every term is rebuilt.
      Expr r = n.constant;
      for (const Term& t : n.terms) r = r + Expr(t.coefficient) * substitute(t.factor, value_of);
      return r;
    }
    case ExprKind::Product: {
      Expr r = 1;
      for (const Expr& f : n.operands) r = r * substitute(f, value_of);
      return r;
    }
    default: break;
  }
  Expr a = substitute(n.operands[0], value_of), b = substitute(n.operands[1], value_of);
  switch (n.kind) {
    case ExprKind::FloorDiv: return floordiv(a, b);
    case ExprKind::Mod: return mod(a, b);
    case ExprKind::Min: return min(a, b);
    default: return max(a, b);
  }
}

bool contains(Expr e, Expr symbol) {
  if (e.is_constant()) return false;
  if (e == symbol) return true;
  const ExprNode& n = *e.node();
  return std::any_of(n.terms.begin(), n.terms.end(), [&](const Term& t) { return contains(t.factor, symbol); }) ||
         std::any_of(n.operands.begin(), n.operands.end(), [&](Expr o) { return contains(o, symbol); });
}

static void collect_symbols(Expr e, std::vector<Expr>& out) {
  if (e.is_constant()) return;
  if (e.is_symbol()) {
    if (std::find(out.begin(), out.end(), e) == out.end()) out.push_back(e);
    return;
  }
  for (const Term& t : e.node()->terms) collect_symbols(t.factor, out);
  for (const Expr& o : e.node()->operands) collect_symbols(o, out);
}

std::vector<Expr> symbols_of(Expr e) {
  std::vector<Expr> out;
  collect_symbols(e, out);
  std::sort(out.begin(), out.end(), before);
  return out;
}

std::optional<Expr> coefficient_of(Expr e, Expr symbol) {
  Expr sum = 0;
  for (const Term& t : poly_of(e).terms) {
    if (!contains(t.factor, symbol)) continue;
    std::vector<Expr> others;
    int found = 0;
    for (const Expr& a : atoms(t.factor)) {
      if (a == symbol) {
        ++found;
      } else if (contains(a, symbol)) {
        return std::nullopt;
      } else {
        others.push_back(a);
      }
    }
    if (found != 1) return std::nullopt;
    sum = sum + Expr(t.coefficient) * product_of(std::move(others), symbol.node()->context);
  }
  return sum;
}

}  // namespace vesta
