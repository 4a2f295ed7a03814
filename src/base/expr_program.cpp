#include <algorithm>

#include "base/checked_arithmetic.h"
#include "base/expr.h"

namespace vesta {

namespace {

using Code = ExprProgram::Code;

void emit(Expr e, const std::function<int64_t(Expr)>& slot_of, std::vector<ExprProgram::Step>& out) {
  if (e.is_constant()) {
    out.push_back({Code::Constant, e.constant()});
    return;
  }
  const ExprNode& n = *e.node();
  auto operands = [&](Code code) {
    emit(n.operands[0], slot_of, out);
    for (size_t i = 1; i < n.operands.size(); ++i) {
      emit(n.operands[i], slot_of, out);
      out.push_back({code});
    }
  };
  switch (n.kind) {
    case ExprKind::Symbol: out.push_back({Code::Symbol, slot_of(e)}); return;
    case ExprKind::Product: operands(Code::Mul); return;
    case ExprKind::FloorDiv: operands(Code::FloorDiv); return;
    case ExprKind::Mod: operands(Code::Mod); return;
    case ExprKind::Min: operands(Code::Min); return;
    case ExprKind::Max: operands(Code::Max); return;
    case ExprKind::Sum: break;
  }
  bool first = n.constant == 0;
  if (!first) out.push_back({Code::Constant, n.constant});
  for (const Term& t : n.terms) {
    emit(t.factor, slot_of, out);
    if (t.coefficient != 1) {
      out.push_back({Code::Constant, t.coefficient});
      out.push_back({Code::Mul});
    }
    if (!first) out.push_back({Code::Add});
    first = false;
  }
}

int64_t apply(Code code, int64_t a, int64_t b) {
  switch (code) {
    case Code::Add: return checked_add(a, b);
    case Code::Mul: return checked_mul(a, b);
    case Code::FloorDiv: return floor_div(a, b);
    case Code::Mod: return floor_mod(a, b);
    case Code::Min: return std::min(a, b);
    default: return std::max(a, b);
  }
}

}  // namespace

int64_t ExprProgram::run(std::span<const int64_t> symbol_values) const {
  if (steps.size() == 1) return is_constant() ? steps[0].value : symbol_values[static_cast<size_t>(steps[0].value)];
  int64_t small[32];
  std::vector<int64_t> large;
  int64_t* stack = small;
  if (steps.size() > 32) {
    large.resize(steps.size());
    stack = large.data();
  }
  size_t top = 0;
  for (const Step& s : steps) {
    if (s.code == Code::Constant) {
      stack[top++] = s.value;
    } else if (s.code == Code::Symbol) {
      stack[top++] = symbol_values[static_cast<size_t>(s.value)];
    } else {
      --top;
      stack[top - 1] = apply(s.code, stack[top - 1], stack[top]);
    }
  }
  return top == 0 ? 0 : stack[0];
}

ExprProgram compile(Expr e, const std::function<int64_t(Expr)>& slot_of) {
  ExprProgram program;
  emit(e, slot_of, program.steps);
  return program;
}

}  // namespace vesta
