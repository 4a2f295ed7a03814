#include <cctype>

#include "base/check.h"
#include "base/expr.h"
#include "base/text_cursor.h"

namespace vesta {

std::string to_string(Expr e) {
  if (e.is_constant()) return std::to_string(e.constant());
  const ExprNode& n = *e.node();
  auto pair = [&](const char* op) {
    auto operand = [](Expr o) {
      bool open = !o.is_constant() && (o.node()->kind == ExprKind::Sum || o.node()->kind == ExprKind::Product);
      return open ? "(" + to_string(o) + ")" : to_string(o);
    };
    return fmt::format("({} {} {})", operand(n.operands[0]), op, operand(n.operands[1]));
  };
  switch (n.kind) {
    case ExprKind::Symbol: return n.name;
    case ExprKind::Product: {
      std::string s;
      for (const Expr& f : n.operands) s += (s.empty() ? "" : "*") + to_string(f);
      return s;
    }
    case ExprKind::Sum: {
      std::string s;
      auto sign = [&](int64_t c) { return s.empty() ? (c < 0 ? "-" : "") : (c < 0 ? " - " : " + "); };
      for (const Term& t : n.terms) {
        std::string head = sign(t.coefficient);
        int64_t c = t.coefficient < 0 ? -t.coefficient : t.coefficient;
        s += head + (c == 1 ? "" : fmt::format("{}*", c)) + to_string(t.factor);
      }
      if (n.constant != 0) {
        std::string head = sign(n.constant);
        s += head + std::to_string(n.constant < 0 ? -n.constant : n.constant);
      }
      return s;
    }
    case ExprKind::FloorDiv: return pair("//");
    case ExprKind::Mod: return pair("%");
    case ExprKind::Min: return fmt::format("min({}, {})", to_string(n.operands[0]), to_string(n.operands[1]));
    case ExprKind::Max: return fmt::format("max({}, {})", to_string(n.operands[0]), to_string(n.operands[1]));
  }
  return "?";
}

namespace {

// expr: term (+|- term)*   term: unary (*|//|% unary)*   unary: - unary | atom   atom: int | name | (expr) | min(e, e)
class Parser : TextCursor {
 public:
  Parser(ExprContext& context, std::string_view text) : TextCursor(text, " \t\n\r\f\v"), context_(context) {}

  Expr parse() {
    Expr e = sum();
    if (!at_end()) fail("unexpected text");
    return e;
  }

 private:
  [[noreturn]] void fail(const char* what) {
    throw UserError(fmt::format("{} at column {} of the size expression \"{}\"", what, pos_ + 1, text_));
  }
  Expr sum() {
    Expr e = term();
    for (;;) {
      if (accept("+")) {
        e = e + term();
      } else if (accept("-")) {
        e = e - term();
      } else {
        return e;
      }
    }
  }
  Expr term() {
    Expr e = unary();
    for (;;) {
      if (accept("*")) {
        e = e * unary();
      } else if (accept("//")) {
        e = floordiv(e, unary());
      } else if (accept("%")) {
        e = mod(e, unary());
      } else {
        return e;
      }
    }
  }
  Expr unary() {
    if (accept("-")) return -unary();
    return atom();
  }
  Expr atom() {
    if (accept("(")) {
      Expr e = sum();
      if (!accept(")")) fail("expected )");
      return e;
    }
    const size_t begin = pos_;
    const std::string_view name = take_while([](char c) { return is_word_character(c) || c == '.' || c == '$'; });
    if (name.empty()) fail("expected a number or a symbol");
    if (std::isdigit(static_cast<unsigned char>(name[0]))) return std::stoll(std::string(name));
    if ((name == "min" || name == "max") && accept("(")) {
      Expr a = sum();
      if (!accept(",")) fail("expected ,");
      Expr b = sum();
      if (!accept(")")) fail("expected )");
      return name == "min" ? min(a, b) : max(a, b);
    }
    for (const Expr& s : context_.symbols()) {
      if (s.node()->name == name) return s;
    }
    pos_ = begin;
    fail("unknown symbol");
  }

  ExprContext& context_;
};

}  // namespace

Expr parse_expr(ExprContext& context, std::string_view text) { return Parser(context, text).parse(); }

}  // namespace vesta
