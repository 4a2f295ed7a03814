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
  // The texts of the operands are made before the value gets its number.
  auto yields = [&](const std::string& text) { line("{} = {}", define(r), text); };
  std::string_view t = name(i.dtype);
  switch (i.kind) {
    case InstrKind::Constant:
      yields(fmt::format("const {} {}", t, is_float(i.dtype) ? number(i.fimm) : std::to_string(i.imm)));
      break;
    case InstrKind::Index: yields(fmt::format("index {} [{}]", t, text(i.index))); break;
    case InstrKind::Load: yields(fmt::format("load {} {}{}", t, element(), mask(0))); break;
    case InstrKind::Compute: {
      std::string in;
      for (int n = 0; n < arity(i.prim); ++n) in += " " + operand(n);
      yields(fmt::format("{} {}{}", name(i.prim), name(compute_type(instrs_, i)), in));
      break;
    }
    case InstrKind::Cast: yields(fmt::format("cast {} {}", t, operand(0))); break;
    case InstrKind::Indirect: {
      std::string in = operand(0), asserts = mask(1), x = fmt::format("x{}", indirects_++);
      names_[i.index] = x;
      line("{} = indirect {}{}", x, in, asserts);
      break;
    }
    case InstrKind::Store: line("store {} {} {}{}", t, element(), operand(0), mask(1)); break;
    case InstrKind::StoreAdd: line("storeadd {} {} {}{}", t, element(), operand(0), mask(1)); break;
    case InstrKind::Accumulate: {
      const bool arg = i.reduce == ReduceOp::ArgMax || i.reduce == ReduceOp::ArgMin;
      yields(fmt::format("accumulate {} {} {}{}", t, name(i.reduce), operand(0), arg ? " " + operand(1) : ""));
      break;
    }
    case InstrKind::Result:
      yields(fmt::format("{} {} {}", i.imm == 1 ? "position" : "result", name(value_type(instrs_, r)), operand(0)));
      break;
    case InstrKind::Scan: yields(fmt::format("scan {} {} {}", t, name(i.reduce), operand(0))); break;
    case InstrKind::RowStore: line("rowstore {} r{} {}", t, i.slot, operand(0)); break;
    case InstrKind::RowLoad: yields(fmt::format("rowload {} r{}", t, i.slot)); break;
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
    case ExprKind::Product: return fmt::format("{}", fmt::join(sorted(n.operands), "*"));
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
