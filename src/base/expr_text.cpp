#include <cctype>

#include "base/check.h"
#include "base/expr.h"

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
class Parser {
 public:
  Parser(ExprContext& context, std::string_view text) : context_(context), text_(text) {}

  Expr parse() {
    Expr e = sum();
    skip();
    if (at_ != text_.size()) fail("unexpected text");
    return e;
  }

 private:
  [[noreturn]] void fail(const char* what) {
    throw UserError(fmt::format("{} at column {} of the size expression \"{}\"", what, at_ + 1, text_));
  }
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  Expr sum() {
    Expr e = term();
    for (;;) {
      if (take("+")) {
        e = e + term();
      } else if (take("-")) {
        e = e - term();
      } else {
        return e;
      }
    }
  }
  Expr term() {
    Expr e = unary();
    for (;;) {
      if (take("*")) {
        e = e * unary();
      } else if (take("//")) {
        e = floordiv(e, unary());
      } else if (take("%")) {
        e = mod(e, unary());
      } else {
        return e;
      }
    }
  }
  Expr unary() {
    if (take("-")) return -unary();
    return atom();
  }
  Expr atom() {
    skip();
    if (take("(")) {
      Expr e = sum();
      if (!take(")")) fail("expected )");
      return e;
    }
    size_t begin = at_;
    auto word = [&](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$'; };
    while (at_ < text_.size() && word(text_[at_])) ++at_;
    std::string_view name = text_.substr(begin, at_ - begin);
    if (name.empty()) fail("expected a number or a symbol");
    if (std::isdigit(static_cast<unsigned char>(name[0]))) return std::stoll(std::string(name));
    if ((name == "min" || name == "max") && take("(")) {
      Expr a = sum();
      if (!take(",")) fail("expected ,");
      Expr b = sum();
      if (!take(")")) fail("expected )");
      return name == "min" ? min(a, b) : max(a, b);
    }
    for (const Expr& s : context_.symbols()) {
      if (s.node()->name == name) return s;
    }
    at_ = begin;
    fail("unknown symbol");
  }

  ExprContext& context_;
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Expr parse_expr(ExprContext& context, std::string_view text) { return Parser(context, text).parse(); }

}  // namespace vesta
