#include "loops/text_reader.h"

#include <limits>

#include "base/check.h"

namespace vesta::loops {

void TextReader::read(std::string_view first) {
  bool begun = false;
  for (;;) {
    while (accept("\n")) {
    }
    if (at_end()) break;
    if (!begun) {
      if (word() != first) fail(fmt::format("expected \"{}\"", first));
      begun = true;
    } else {
      statement(word());
    }
    if (!at_end_of_line()) fail("unexpected text at the end of the line");
  }
  if (!begun) fail(fmt::format("expected \"{}\"", first));
}

std::string_view TextReader::rest_of_line() const {
  std::string_view line = rest().substr(0, rest().find_first_of("#\n"));
  line.remove_suffix(line.size() - (line.find_last_not_of(" \t\r") + 1));
  return line;
}

void TextReader::fail(std::string_view what) const {
  const auto line = 1 + std::ranges::count(text_.substr(0, pos_), '\n');
  throw UserError(fmt::format("{} in line {} of the kernel text, before \"{}\"", what, line, rest_of_line()));
}

bool TextReader::at_end_of_line() { return at_end() || here() == '\n'; }

std::string_view TextReader::word() {
  const std::string_view w =
      take_while([](char c) { return std::string_view(" \t\r\n[#").find(c) == std::string_view::npos; });
  if (w.empty()) fail("expected a word");
  return w;
}

void TextReader::expect(std::string_view word) {
  if (!accept(fmt::format("{} ", word))) fail(fmt::format("expected {}", word));
}

int64_t TextReader::integer(std::string_view w) {
  if (const auto v = number_in<int64_t>(w)) return *v;
  fail(fmt::format("expected an integer, found \"{}\"", w));
}

int TextReader::numbered(char prefix) {
  std::string_view w = word();
  if (w.size() < 2 || w[0] != prefix) fail(fmt::format("expected {}<number>, found \"{}\"", prefix, w));
  return static_cast<int>(integer(w.substr(1)));
}

Expr TextReader::rest_expr() {
  skip_blanks();
  const std::string_view line = rest_of_line();
  Expr e = parse_expr(*context_, line);
  pos_ += line.size();
  return e;
}

Expr TextReader::index() {
  if (!accept("[")) fail("expected [");
  const std::string_view inside = take_while([](char c) { return c != ']' && c != '\n'; });
  if (here() != ']') fail("expected ]");
  ++pos_;
  return parse_expr(*context_, inside);
}

Expr TextReader::number_or_index() { return peek() == '[' ? index() : Expr(integer(word())); }

Ref TextReader::value() {
  std::string w(word());
  auto it = values_.find(w);
  if (it == values_.end()) fail(fmt::format("unknown value \"{}\"", w));
  return it->second;
}

Ref TextReader::mask() {
  if (!accept("if ")) return kNoRef;
  return value();
}

void TextReader::element(Instr& i) {
  i.buffer = numbered('b');
  i.index = index();
}

Expr TextReader::size() {
  std::string name(word());
  int64_t lower = accept(">=") ? integer(word()) : 2;
  return context_->size_symbol(name, lower < 2 ? 2 : lower, lower);
}

Range TextReader::range() {
  std::string name(word());
  std::string_view kind = word();
  if (kind != "parallel" && kind != "inner") fail("expected parallel or inner");
  Expr extent = rest_expr();
  return {context_->loop_symbol(name, extent), extent, kind == "parallel" ? RangeKind::Parallel : RangeKind::Inner};
}

bool TextReader::writes() {
  std::string_view use = word();
  if (use != "read" && use != "write") fail("expected read or write");
  return use == "write";
}

void TextReader::instr(std::string_view head) {
  Instr i;
  std::string result;
  if (head[0] == '%' || head[0] == 'x') {
    result = head;
    if (!accept("=")) fail("expected =");
    head = word();
  }
  if (head == "indirect") {
    i.kind = InstrKind::Indirect;
    i.in[0] = value();
    i.in[1] = mask();
    i.dtype = DType::I64;
    i.index = context_->indirect_symbol(result);
    result.clear();
  } else {
    i.dtype = parse_dtype(word());
    operation(head, i);
  }
  const Ref r = add(std::move(i));
  if (!result.empty() && !values_.emplace(result, r).second) fail(fmt::format("{} is defined twice", result));
}

void TextReader::operation(std::string_view head, Instr& i) {
  if (head == "const") {
    i.kind = InstrKind::Constant;
    std::string_view v = word();
    if (!is_float(i.dtype)) {
      i.imm = integer(v);
    } else if (v == "nan" || v == "inf" || v == "-inf") {
      double infinity = std::numeric_limits<double>::infinity();
      i.fimm = v == "nan" ? std::numeric_limits<double>::quiet_NaN() : v == "inf" ? infinity : -infinity;
    } else {
      const auto number = number_in<double>(v);
      if (!number) fail("expected a number");
      i.fimm = *number;
    }
  } else if (head == "index") {
    i.kind = InstrKind::Index;
    i.index = index();
  } else if (head == "load") {
    i.kind = InstrKind::Load;
    element(i);
    i.in[0] = mask();
  } else if (head == "cast") {
    i.kind = InstrKind::Cast;
    i.in[0] = value();
  } else if (head == "store" || head == "storeadd") {
    i.kind = head == "store" ? InstrKind::Store : InstrKind::StoreAdd;
    element(i);
    i.in[0] = value();
    i.in[1] = mask();
  } else if (head == "accumulate" || head == "scan") {
    i.kind = head == "scan" ? InstrKind::Scan : InstrKind::Accumulate;
    i.reduce = parse_reduce_op(word());
    i.in[0] = value();
    if (i.reduce == ReduceOp::ArgMax || i.reduce == ReduceOp::ArgMin) i.in[1] = value();
  } else if (head == "result" || head == "position") {
    i.kind = InstrKind::Result;
    i.imm = head == "position" ? 1 : 0;
    i.in[0] = value();
  } else if (head == "rowstore" || head == "rowload") {
    i.kind = head == "rowstore" ? InstrKind::RowStore : InstrKind::RowLoad;
    i.slot = numbered('r');
    if (i.kind == InstrKind::RowStore) i.in[0] = value();
  } else {
    i.kind = InstrKind::Compute;
    i.prim = parse_prim(head);
    for (int n = 0; n < arity(i.prim); ++n) i.in[static_cast<size_t>(n)] = value();
    if (yields_bool(i.prim)) i.dtype = DType::Bool;
  }
}

}  // namespace vesta::loops
