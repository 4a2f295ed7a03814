// Splits and merges loop ranges.
#include <algorithm>
#include <unordered_set>

#include "schedule/cpu_loops.h"

namespace vesta::schedule {

using loops::Dag;
using loops::Range;
using loops::Ref;

namespace {

const ExprNode* as(Expr e, ExprKind kind) { return !e.is_constant() && e.node()->kind == kind ? e.node() : nullptr; }

// The divisors by which e splits `var`.
void collect_cuts(Expr e, Expr var, std::vector<Expr>& cuts, std::unordered_set<Expr>& seen) {
  if (e.is_constant() || !seen.insert(e).second) return;
  const ExprNode& n = *e.node();
  auto add = [&](Expr c) {
    if (std::find(cuts.begin(), cuts.end(), c) == cuts.end()) cuts.push_back(c);
  };
  if (n.kind == ExprKind::FloorDiv && n.operands[0] == var) add(n.operands[1]);
  if (n.kind == ExprKind::Mod) {
    if (n.operands[0] == var) add(n.operands[1]);
    if (const ExprNode* d = as(n.operands[0], ExprKind::FloorDiv); d && d->operands[0] == var) {
      add(d->operands[1] * n.operands[1]);
    }
  }
  for (const Term& t : n.terms) collect_cuts(t.factor, var, cuts, seen);
  for (Expr o : n.operands) collect_cuts(o, var, cuts, seen);
}

}  // namespace

void split_ranges(Dag& dag) {
  for (int round = 0; round < 4; ++round) {
    std::vector<Range> out;
    std::unordered_map<Expr, Expr> image;
    for (const Range& r : dag.ranges()) {
      std::vector<Expr> cuts;
      std::unordered_set<Expr> seen;
      dag.for_each_index([&](Ref, Expr e) { collect_cuts(e, r.var, cuts, seen); });
      std::stable_sort(cuts.begin(), cuts.end(), [](Expr a, Expr b) { return hint(a) < hint(b); });
      // A chain in which each cut divides the next and the extent.
      std::vector<Expr> chain = {1};
      for (Expr c : cuts) {
        if (hint(c) > hint(chain.back()) && provably_divisible(c, chain.back()) && provably_divisible(r.extent, c) &&
            c != r.extent) {
          chain.push_back(c);
        }
      }
      if (chain.size() == 1) {
        out.push_back(r);
        continue;
      }
      Expr sum = 0;
      std::vector<Range> parts;
      for (size_t k = 0; k < chain.size(); ++k) {
        Expr above = k + 1 < chain.size() ? chain[k + 1] : r.extent;
        Range part{Expr(0), floordiv(above, chain[k]), r.kind};
        if (part.extent.is_constant(1)) continue;
        part.var = dag.new_variable(part.extent);
        sum = sum + part.var * chain[k];
        parts.push_back(part);
      }
      out.insert(out.end(), parts.rbegin(), parts.rend());
      image[r.var] = sum;
    }
    if (image.empty()) break;
    std::unordered_map<Expr, Expr> known;
    dag.rewrite_indices([&](Expr e) {
      auto [it, fresh] = known.emplace(e, e);
      if (fresh) {
        it->second = substitute(e, [&](Expr s) {
          auto i = image.find(s);
          return i == image.end() ? s : i->second;
        });
      }
      return it->second;
    });
    dag.ranges() = std::move(out);
  }
}

namespace {

// e over `both`, the flattened variable of these ranges, in place of their variables.
Expr flattened(Expr e, std::span<const Range> ranges, Expr both) {
  std::vector<Expr> coefficients, below = {1};  // below: the elements of the ranges after each one
  for (const Range& r : ranges)
    if (const auto c = coefficient_of(e, r.var)) coefficients.push_back(*c);
  for (size_t k = ranges.size(); k-- > 1;) below.insert(below.begin(), below.front() * ranges[k].extent);
  const auto place = [&](size_t first, size_t last, Expr extent) {  // of ranges first to last, which run on together
    const Expr above = floordiv(both, below[last]);
    return first == 0 ? above : mod(above, extent);
  };
  const auto position = [&](Expr s) {
    const auto r = std::find_if(ranges.begin(), ranges.end(), [&](const Range& x) { return x.var == s; });
    return static_cast<size_t>(r - ranges.begin());
  };
  if (coefficients.size() < ranges.size())
    return substitute(e, [&](Expr s) {
      const size_t k = position(s);
      return k == ranges.size() ? s : place(k, k, ranges[k].extent);
    });
  Expr sum = substitute(e, [&](Expr s) { return position(s) == ranges.size() ? s : Expr(0); });
  for (size_t last = ranges.size(); last-- > 0;) {
    size_t first = last;
    Expr extent = ranges[last].extent;
    while (first > 0 && coefficients[first - 1] == coefficients[last] * extent)
      extent = extent * ranges[--first].extent;
    if (!coefficients[last].is_constant(0)) sum = sum + coefficients[last] * place(first, last, extent);
    last = first;
  }
  return sum;
}

}  // namespace

Range flatten_ranges(Dag& dag, std::span<const Range> which) {
  std::erase_if(dag.ranges(), [&](const Range& r) {
    return std::any_of(which.begin(), which.end(), [&](const Range& w) { return w.var == r.var; });
  });
  if (which.size() == 1) return which[0];
  Range both{Expr(0), 1, which[0].kind};
  for (const Range& r : which) both.extent = both.extent * r.extent;
  both.var = dag.new_variable(both.extent);
  dag.rewrite_indices([&](Expr e) {
    const bool depends = std::any_of(which.begin(), which.end(), [&](const Range& r) { return contains(e, r.var); });
    return depends ? flattened(e, which, both.var) : e;
  });
  return both;
}

void merge_ranges(Dag& dag) {
  std::vector<Range>& ranges = dag.ranges();
  for (size_t i = 0; i + 1 < ranges.size();) {
    const Range a = ranges[i], b = ranges[i + 1];
    bool ok = a.kind == b.kind;
    if (ok) {
      dag.for_each_index([&](Ref, Expr e) {
        if (!ok) return;
        auto ca = coefficient_of(e, a.var), cb = coefficient_of(e, b.var);
        ok = ca && cb && *ca == *cb * b.extent;
      });
    }
    if (!ok) {
      ++i;
      continue;
    }
    Range both{Expr(0), a.extent * b.extent, a.kind};
    both.var = dag.new_variable(both.extent);
    dag.rewrite_indices([&](Expr e) {
      auto cb = coefficient_of(e, b.var);
      if (cb->is_constant(0)) return e;
      Expr rest = substitute(e, [&](Expr s) { return s == a.var || s == b.var ? Expr(0) : s; });
      return rest + *cb * both.var;
    });
    ranges[i] = both;
    ranges.erase(ranges.begin() + static_cast<int64_t>(i) + 1);
    if (i > 0) --i;
  }
}

}  // namespace vesta::schedule
