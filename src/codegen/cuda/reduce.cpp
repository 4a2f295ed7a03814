#include "codegen/cuda/reduce.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "codegen/cuda/arithmetic.h"
#include "loops/scalar.h"

namespace vesta::codegen {

using loops::Instr;
using loops::Ref;

bool is_arg(const Instr& i) { return i.reduce == ReduceOp::ArgMax || i.reduce == ReduceOp::ArgMin; }

std::string identity_text(const Instr& i) {
  const loops::Scalar x = loops::identity(i.reduce, i.dtype);
  if (is_float(i.dtype)) return literal(x.f, i.dtype);
  return fmt::format("({})0x{:x}ull", value_type_name(i.dtype), static_cast<uint64_t>(x.i));
}

std::string combined_text(const Instr& i, const std::string& a, const std::string& b) {
  const std::string_view t = value_type_name(i.dtype);
  switch (i.reduce) {
    case ReduceOp::Sum: return arithmetic("+", i.dtype, a, b);
    case ReduceOp::Prod: return arithmetic("*", i.dtype, a, b);
    case ReduceOp::Any: return fmt::format("({})({} != 0 || {} != 0)", t, a, b);
    case ReduceOp::All: return fmt::format("({})({} != 0 && {} != 0)", t, a, b);
    case ReduceOp::Max: return fmt::format("v_max<{}>({}, {})", t, a, b);
    case ReduceOp::Min: return fmt::format("v_min<{}>({}, {})", t, a, b);
    default: break;
  }
  VESTA_CHECK(false, "a reduction that combines positions");
}

std::string ReductionLines::own(char kind, Ref r) const {
  return fmt::format("{}{}{}", kind, r, by_column_[r] && kind != 'n' ? "[u]" : "");
}
template <class F>
void ReductionLines::for_rows(Ref r, F&& fn) {
  if (!by_column_[r]) return fn();
  line("#pragma unroll");
  line("for (int u = 0; u < {}; ++u) {{", t_.each);
  fn();
  line("}}");
}

std::vector<ReductionLines::Variable> ReductionLines::variables_of(Ref r) const {
  const Instr& i = k_.instrs[r];
  const std::string_view t = value_type_name(i.dtype);
  std::vector<Variable> out{{'a', t}};
  if (is_arg(i)) out.push_back({'p', "i64"});
  const loops::Online* const o = sum_of(r);
  if (o) out.push_back({'p', t});
  if (is_online_squares(r)) out.insert(out.end(), {{'n', t}, {'m', t}});
  return out;
}

void ReductionLines::begin_accumulator(Ref r) {
  const Instr& i = k_.instrs[r];
  const std::string rows = by_column_[r] ? fmt::format("[{}]", t_.each) : "";
  std::vector<Variable> variables = variables_of(r);
  if (is_relative(r)) variables.push_back({'d', value_type_name(i.dtype)});
  for (const Variable& v : variables) line("{} {}{}{};", v.type, v.kind, r, v.kind == 'n' ? "" : rows);
  for_rows(r, [&] {
    for (const Variable& v : variables) {
      const bool is_place = v.kind == 'p' && is_arg(i);
      line("{} = {};", own(v.kind, r), v.kind == 'a' ? identity_text(i) : is_place ? "0x7fffffffffffffffll" : "0");
    }
  });
}

void ReductionLines::accumulate(Ref r, const std::string& x, const std::string& position) {
  const Instr& i = k_.instrs[r];
  if (is_relative(r)) {
    line("add_moment({}, {}, {}, {}, n{} == 0, {});", own('a', r), own('d', r), own('p', r), own('m', r), r, x);
    if (!by_column_[r]) count_element(r);
  } else if (sum_of(r)) {
    if (along() > 1) return line("g{}[u] = {};", r, x);
    line("const {} g{}[1] = {{{}}};", value_type_name(i.dtype), r, x);
    line("{}", added_to_sum(r));
  } else if (is_arg(i)) {
    take_better(r, x, position);
  } else {
    line("{} = {};", own('a', r), combined_text(i, own('a', r), x));
  }
}

void ReductionLines::take_better(Ref r, const std::string& x, const std::string& at) {
  const Instr& i = k_.instrs[r];
  const std::string a = own('a', r), p = own('p', r);
  line("if (beats<{}>({}, {}, {}, {}, {})) {{ {} = {}; {} = {}; }}", value_type_name(i.dtype), x, at, a, p,
       i.reduce == ReduceOp::ArgMax, a, x, p, at);
}

const loops::Online* ReductionLines::sum_of(Ref first) const {
  const auto it = std::find_if(k_.online.begin(), k_.online.end(), [&](const auto& o) { return o.first == first; });
  return it == k_.online.end() ? nullptr : &*it;
}
bool ReductionLines::is_online_squares(Ref r) const {
  return sum_of(r) && sum_of(r)->kind == loops::OnlineKind::Squares;
}
bool ReductionLines::is_relative(Ref r) const { return along() == 1 && is_online_squares(r); }
void ReductionLines::count_element(Ref r) { line("n{} += 1;", r); }
std::string ReductionLines::added_to_sum(Ref r) const {
  const std::string a = own('a', r), p = own('p', r);
  if (!is_online_squares(r)) return fmt::format("add_relative({}, {}, g{});", a, p, r);
  return fmt::format("add_moments({}, {}, {}, {}, g{});", a, p, own('n', r), own('m', r), r);
}
bool ReductionLines::is_left_out(const loops::Stage& s) const {
  return std::any_of(k_.online.begin(), k_.online.end(), [&](const loops::Online& o) {
    return std::find(s.body.begin(), s.body.end(), o.sum) != s.body.end();
  });
}

void ReductionLines::combine_over_team(const std::vector<Ref>& accumulators, bool by_first) {
  for (const Ref r : accumulators)
    if (is_relative(r)) {
      line("const {0} share{1} = 1 / n{1};", value_type_name(k_.instrs[r].dtype), r);
      for_rows(r, [&] {
        line("center_moments({0}, {1}, {2}, n{3}, share{3}, {4});", own('a', r), own('d', r), own('p', r), r,
             own('m', r));
      });
    }
  if (t_.across) {
    for (const Ref r : accumulators) is_relative(r) ? squares_across(r, by_first) : across_block(r, by_first);
  } else {
    for (const Ref r : accumulators) over_warp(r, std::min<int64_t>(t_.team, 32), 1);
    if (t_.team * t_.parts > 32) over_block(accumulators, by_first);
  }
  for (const Ref r : accumulators) finish_online(r);
}

void ReductionLines::finish_online(Ref r) {
  const loops::Online* o = sum_of(r);
  if (!o) return;
  line("{} a{}{};", value_type_name(k_.instrs[r].dtype), o->sum, by_column_[r] ? fmt::format("[{}]", t_.each) : "");
  for_rows(r, [&] {
    const std::string sum = own('a', o->sum), a = own('a', r), p = own('p', r);
    switch (o->kind) {
      case loops::OnlineKind::Exp: return line("{} = sum_of({}, {});", sum, a, p);
      case loops::OnlineKind::FiniteExp: return line("{} = sum_of_finite({}, {});", sum, a, p);
      case loops::OnlineKind::Squares: return line("{} = {};", sum, p);
    }
  });
}

void ReductionLines::meet(Ref r, const std::vector<std::string>& other) {
  const std::string a = own('a', r), p = own('p', r);
  if (is_arg(k_.instrs[r])) {
    take_better(r, other[0], other[1]);
  } else if (is_online_squares(r)) {
    line("meet_moments({}, {}, {}, {}, {});", a, p, own('n', r), own('m', r), fmt::join(other, ", "));
  } else if (sum_of(r)) {
    line("add_sums({}, {}, {});", a, p, fmt::join(other, ", "));
  } else {
    line("{} = {};", a, combined_text(k_.instrs[r], a, other[0]));
  }
}

std::vector<std::string> ReductionLines::names_of(Ref r,
                                                  const std::function<std::string(const Variable&)>& name) const {
  std::vector<std::string> names;
  for (const Variable& v : variables_of(r)) names.push_back(name(v));
  return names;
}

// Combines the accumulators of `width` neighbouring threads of a warp. Those of one team are `between` threads apart.
void ReductionLines::over_warp(Ref r, int64_t width, int64_t between) {
  for_rows(r, [&] {
    for (int64_t mask = width / 2; mask >= between; mask /= 2) {
      line("{{");
      for (const Variable& v : variables_of(r))
        line("const {0} other_{1} = from_lane<{0}>({2}, {3});", v.type, v.kind, own(v.kind, r), mask);
      meet(r, names_of(r, [](const Variable& v) { return fmt::format("other_{}", v.kind); }));
      line("}}");
    }
  });
}

// Teams that work across combine through shared memory: one value per warp, or one per thread.
void ReductionLines::across_block(Ref r, bool by_first) {
  const std::vector<Variable> variables = variables_of(r);
  const int64_t teams = t_.block / t_.team;
  const bool in_warps = 32 % teams == 0;
  if (in_warps) over_warp(r, 32, teams);
  const int64_t parts = in_warps ? t_.block / 32 : t_.team, each = by_column_[r] ? t_.each : 1;
  if (parts == 1) return;
  const std::string of_team = fmt::format("threadIdx.x % {}", teams);
  const std::string part = in_warps ? fmt::format("threadIdx.x / 32 * {} + {}", teams, of_team) : "threadIdx.x";
  const std::string writes = in_warps ? fmt::format("if (threadIdx.x % 32 < {}) ", teams) : "";
  const auto place = [&](const std::string& at) {
    return each > 1 ? fmt::format("u * {} + {}", parts * teams, at) : at;
  };
  for (const Variable& v : variables) line("__shared__ {} shared_{}{}[{}];", v.type, v.kind, r, parts * teams * each);
  for_rows(r, [&] {
    for (const Variable& v : variables) line("{}shared_{}{}[{}] = {};", writes, v.kind, r, place(part), own(v.kind, r));
  });
  line("__syncthreads();");
  if (by_first) line("if (lane == 0) {{");
  const auto shared = [&](const std::string& at) {
    return names_of(r, [&](const Variable& v) { return fmt::format("shared_{}{}[{}]", v.kind, r, place(at)); });
  };
  for_rows(r, [&] {
    const std::vector<std::string> first = shared(of_team);
    for (size_t v = 0; v < variables.size(); ++v) line("{} = {};", own(variables[v].kind, r), first[v]);
    line("#pragma unroll");
    line("for (int w = 1; w < {}; ++w) {{", parts);
    meet(r, shared(fmt::format("w * {} + {}", teams, of_team)));
    line("}}");
  });
  if (by_first) line("}}");
}

// Combines the moments of a team's threads. All columns of a thread have the same count, so `share` is computed once
// for all of them.
void ReductionLines::squares_across(Ref r, bool by_first) {
  const std::string_view t = value_type_name(k_.instrs[r].dtype);
  const int64_t teams = t_.block / t_.team, each = by_column_[r] ? t_.each : 1;
  const bool in_warps = 32 % teams == 0;
  const auto meet = [&](const std::string& count, const std::function<std::string(char)>& other) {
    line("const {} other_n = {}, all = n{} + other_n;", t, count, r);
    line("const {0} share = all == 0 ? 0 : about<{0}>(other_n, all), both = n{1} * share;", t, r);
    for_rows(r, [&] {
      line("meet_columns({}, {}, {}, share, both, {}, {}, {});", own('a', r), own('p', r), own('m', r), other('a'),
           other('p'), other('m'));
    });
    line("n{} = all;", r);
  };
  if (in_warps)
    for (int64_t mask = 16; mask >= teams; mask /= 2) {
      line("{{");
      meet(fmt::format("from_lane<{}>(n{}, {})", t, r, mask),
           [&](char kind) { return fmt::format("from_lane<{}>({}, {})", t, own(kind, r), mask); });
      line("}}");
    }
  const int64_t parts = in_warps ? t_.block / 32 : t_.team;
  if (parts == 1) return;
  const std::string of_team = fmt::format("threadIdx.x % {}", teams),
                    own_part = fmt::format("threadIdx.x / {}", in_warps ? 32 : teams);
  const auto place = [&](const std::string& part) {
    return fmt::format("{}({}) * {} + {}", each > 1 ? fmt::format("u * {} + ", parts * teams) : "", part, teams,
                       of_team);
  };
  const auto shared = [&](char kind, const std::string& part) {
    return fmt::format("shared_{}{}[{}]", kind, r, place(part));
  };
  for (const char kind : {'a', 'p', 'm'}) line("__shared__ {} shared_{}{}[{}];", t, kind, r, parts * teams * each);
  line("__shared__ {} shared_n{}[{}];", t, r, parts);
  if (in_warps) line("if (threadIdx.x % 32 < {}) {{", teams);
  line("shared_n{}[{}] = n{};", r, own_part, r);
  for_rows(r, [&] {
    for (const char kind : {'a', 'p', 'm'}) line("{} = {};", shared(kind, own_part), own(kind, r));
  });
  if (in_warps) line("}}");
  line("__syncthreads();");
  if (by_first) line("if (lane == 0) {{");
  line("n{0} = shared_n{0}[0];", r);
  for_rows(r, [&] {
    for (const char kind : {'a', 'p', 'm'}) line("{} = {};", own(kind, r), shared(kind, "0"));
  });
  line("#pragma unroll");
  line("for (int w = 1; w < {}; ++w) {{", parts);
  meet(fmt::format("shared_n{}[w]", r), [&](char kind) { return shared(kind, "w"); });
  line("}}");
  if (by_first) line("}}");
}

std::string ReductionLines::shared_values(char kind, Ref r, std::string_view type, int64_t values, const char* name) {
  if (t_.parts == 1) {
    line("__shared__ {} {}_{}{}[{}];", type, name, kind, r, values);
  } else {  // the blocks have it at the same place
    line("{0}* const {1}_{2}{3} = ({0}*)(shared_rows + {4});", type, name, kind, r, told_);
    told_ += 8 * values;
  }
  return fmt::format("{}_{}{}", name, kind, r);
}

// Combines `values` values in shared memory: the lanes of each warp do, or each thread if there are few.
void ReductionLines::from_shared(Ref r, int64_t values, const char* name) {
  const bool by_lanes = values > 4 && values <= 32 && (values & (values - 1)) == 0;
  const auto value = [&](const std::string& n) {
    return names_of(r, [&](const Variable& v) { return fmt::format("{}_{}{}[{}]", name, v.kind, r, n); });
  };
  const std::vector<Variable> variables = variables_of(r);
  const std::vector<std::string> first = value(by_lanes ? fmt::format("threadIdx.x % {}", values) : "0");
  for (size_t v = 0; v < variables.size(); ++v) line("{} = {};", own(variables[v].kind, r), first[v]);
  if (by_lanes) return over_warp(r, values, 1);
  line("#pragma unroll");
  line("for (int w = 1; w < {}; ++w) {{", values);
  meet(r, value("w"));
  line("}}");
}

// The warps of a block tell each other their values, once for all accumulators. Then the first warp of each block tells
// the blocks that share the row.
void ReductionLines::over_block(const std::vector<Ref>& accumulators, bool by_first) {
  const int64_t warps = t_.block / 32;
  if (warps > 1) {
    for (const Ref r : accumulators)
      for (const Variable& v : variables_of(r))
        line("if (threadIdx.x % 32 == 0) {}[threadIdx.x / 32] = {};", shared_values(v.kind, r, v.type, warps, "shared"),
             own(v.kind, r));
    line("__syncthreads();");
  }
  if (t_.parts > 1) {
    if (!told_once_) line("parts_wait();");  // until all have begun
    told_once_ = true;
    for (const Ref r : accumulators)
      for (const Variable& v : variables_of(r)) shared_values(v.kind, r, v.type, t_.parts, "told");
    line("if (threadIdx.x < 32) {{");
    for (const Ref r : accumulators) {
      if (warps > 1) from_shared(r, warps, "shared");
      for (const Variable& v : variables_of(r))
        line("if (threadIdx.x < {0}) tell_part(told_{1}{2} + own_part<{3}>(), (int)threadIdx.x, {4});",
             by_first ? 1 : t_.parts, v.kind, r, t_.parts, own(v.kind, r));
    }
    line("}}");
    line("parts_meet();");
  }
  if (by_first) line("if (lane < 32) {{");
  for (const Ref r : accumulators) t_.parts > 1 ? from_shared(r, t_.parts, "told") : from_shared(r, warps, "shared");
  if (by_first) line("}}");
}

}  // namespace vesta::codegen
