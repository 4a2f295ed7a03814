#include "loops/text_writer.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace vesta::loops {

namespace {

std::string number(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  return fmt::format("{}", v);
}

}  // namespace

void TextWriter::sizes(std::span<const Expr> sizes) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::string name = fmt::format("s{}", i);
    names_[sizes[i]] = name;
    int64_t lower = sizes[i].node()->lower;
    out_ += lower == 2 ? fmt::format("size {}\n", name) : fmt::format("size {} >= {}\n", name, lower);
  }
}

void TextWriter::ranges(std::span<const Range> ranges) {
  int parallel = 0, inner = 0;
  for (const Range& r : ranges) {
    bool p = r.kind == RangeKind::Parallel;
    std::string extent = text(r.extent);
    std::string name = p ? fmt::format("p{}", parallel++) : fmt::format("i{}", inner++);
    names_[r.var] = name;
    out_ += fmt::format("range {} {} {}\n", name, p ? "parallel" : "inner", extent);
  }
}

std::string TextWriter::value(Ref r) const {
  auto it = numbers_.find(r);
  return it == numbers_.end() ? fmt::format("%?{}", r) : fmt::format("%{}", it->second);
}

std::string TextWriter::define(Ref r) {
  size_t n = numbers_.size();
  numbers_[r] = n;
  return fmt::format("%{}", n);
}

void TextWriter::instr(Ref r) {
  VESTA_CHECK(r < instrs_.size(), "instruction {} of {}", r, instrs_.size());
  const Instr& i = instrs_[r];
  auto operand = [&](int n) { return value(i.in[static_cast<size_t>(n)]); };
  auto mask = [&](int n) { return i.in[static_cast<size_t>(n)] == kNoRef ? "" : " if " + operand(n); };
  auto element = [&] { return fmt::format("b{}[{}]", i.buffer, text(i.index)); };
  std::string_view t = name(i.dtype);
  switch (i.kind) {
    case InstrKind::Constant: {
      std::string v = is_float(i.dtype) ? number(i.fimm) : std::to_string(i.imm);
      line("{} = const {} {}", define(r), t, v);
      break;
    }
    case InstrKind::Index: line("{} = index {} [{}]", define(r), t, text(i.index)); break;
    case InstrKind::Load: {
      std::string m = mask(0);
      line("{} = load {} {}{}", define(r), t, element(), m);
      break;
    }
    case InstrKind::Compute: {
      std::string in;
      for (int n = 0; n < arity(i.prim); ++n) in += " " + operand(n);
      std::string_view type = name(compute_type(instrs_, i));
      line("{} = {} {}{}", define(r), name(i.prim), type, in);
      break;
    }
    case InstrKind::Cast:
    case InstrKind::Bitcast: {
      std::string in = operand(0);
      line("{} = {} {} {}", define(r), i.kind == InstrKind::Cast ? "cast" : "bitcast", t, in);
      break;
    }
    case InstrKind::Indirect: {
      std::string in = operand(0), asserts = mask(1), x = fmt::format("x{}", indirects_++);
      names_[i.index] = x;
      line("{} = indirect {}{}", x, in, asserts);
      break;
    }
    case InstrKind::Store: line("store {} {} {}{}", t, element(), operand(0), mask(1)); break;
    case InstrKind::StoreAdd: line("storeadd {} {} {}{}", t, element(), operand(0), mask(1)); break;
    case InstrKind::Accumulate: {
      std::string in = operand(0);
      if (i.reduce == ReduceOp::ArgMax || i.reduce == ReduceOp::ArgMin) in += " " + operand(1);
      line("{} = accumulate {} {} {}", define(r), t, name(i.reduce), in);
      break;
    }
    case InstrKind::Result: {
      std::string in = operand(0);
      line("{} = {} {} {}", define(r), i.imm == 1 ? "position" : "result", name(value_type(instrs_, r)), in);
      break;
    }
    case InstrKind::Scan: {
      std::string in = operand(0);
      line("{} = scan {} {} {}", define(r), t, name(i.reduce), in);
      break;
    }
    case InstrKind::RowStore: line("rowstore {} r{} {}", t, i.slot, operand(0)); break;
    case InstrKind::RowLoad: line("{} = rowload {} r{}", define(r), t, i.slot); break;
  }
}

// Terms and operands are sorted by their text, because node ids depend on the history of the expression.
std::string TextWriter::text(Expr e) const {
  if (e.is_constant()) return std::to_string(e.constant());
  auto known = names_.find(e);
  if (known != names_.end()) return known->second;
  const ExprNode& n = *e.node();
  switch (n.kind) {
    case ExprKind::Symbol: return n.name + "?";
    case ExprKind::Sum: return sum(n);
    case ExprKind::Product: {
      std::vector<std::string> factors = sorted(n.operands);
      return fmt::format("{}", fmt::join(factors, "*"));
    }
    case ExprKind::FloorDiv: return fmt::format("(({}) // ({}))", text(n.operands[0]), text(n.operands[1]));
    case ExprKind::Mod: return fmt::format("(({}) % ({}))", text(n.operands[0]), text(n.operands[1]));
    case ExprKind::Min:
    case ExprKind::Max: {
      std::vector<std::string> operands = sorted(n.operands);
      return fmt::format("{}({}, {})", n.kind == ExprKind::Min ? "min" : "max", operands[0], operands[1]);
    }
  }
  return "?";
}

std::string TextWriter::sum(const ExprNode& n) const {
  std::vector<std::pair<std::string, int64_t>> terms;
  for (const Term& t : n.terms) terms.emplace_back(text(t.factor), t.coefficient);
  std::sort(terms.begin(), terms.end());
  std::string s;
  auto add = [&](int64_t c, const std::string& body) {
    s += s.empty() ? (c < 0 ? "-" : "") : (c < 0 ? " - " : " + ");
    s += body;
  };
  for (const auto& [factor, c] : terms) {
    int64_t magnitude = c < 0 ? -c : c;
    add(c, magnitude == 1 ? factor : fmt::format("{}*{}", magnitude, factor));
  }
  if (n.constant != 0) add(n.constant, std::to_string(n.constant < 0 ? -n.constant : n.constant));
  return s;
}

std::vector<std::string> TextWriter::sorted(const std::vector<Expr>& operands) const {
  std::vector<std::string> texts;
  for (const Expr& o : operands) texts.push_back(text(o));
  std::sort(texts.begin(), texts.end());
  return texts;
}

}  // namespace vesta::loops
