// Integer expressions over symbols: tensor sizes and strides, guards, and loop indices.
//
// An Expr is a canonical polynomial over atoms (symbols, floor divisions, moduli, min, max), hash-consed in an
// ExprContext. Two equal expressions of one context are the same pointer, so == is exact and cheap. Constants need no
// context. Arithmetic is exact in int64; an overflow throws UserError.
//
// floordiv rounds towards minus infinity and mod has the sign of the divisor (Python's // and %). Simplification uses
// facts about symbols: each has an inclusive lower bound and, if known, an inclusive upper bound, which may itself be
// an Expr (the variable of a loop with s0 iterations has the upper bound s0 - 1).
//
// Building expressions is not thread-safe. Reading a built expression is.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vesta {

class ExprContext;
struct ExprNode;

class Expr {
 public:
  Expr() : bits_(1) {}
  Expr(int64_t constant);  // NOLINT: implicit on purpose
  template <std::integral T>
    requires(!std::same_as<T, bool> && !std::same_as<T, int64_t>)
  Expr(T constant) : Expr(static_cast<int64_t>(constant)) {}  // NOLINT
  explicit Expr(const ExprNode* node) : bits_(reinterpret_cast<uintptr_t>(node)) {}

  bool is_constant() const { return bits_ & 1; }
  bool is_constant(int64_t v) const { return is_constant() && constant() == v; }
  int64_t constant() const;      // requires is_constant()
  const ExprNode* node() const;  // requires !is_constant()
  bool is_symbol() const;
  bool operator==(const Expr& o) const { return bits_ == o.bits_; }
  size_t hash() const { return std::hash<uintptr_t>{}(bits_); }
  // A total order that does not depend on addresses but on node ids within one context. Constants come first.
  bool before(const Expr& o) const;

 private:
  uintptr_t bits_;  // constant << 1 | 1, or ExprNode*
};

Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator-(Expr a);
Expr floordiv(Expr a, Expr b);  // b != 0
Expr mod(Expr a, Expr b);       // b != 0
Expr ceildiv(Expr a, Expr b);
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);

enum class SymbolKind : uint8_t { Size, Loop, Indirect };

enum class ExprKind : uint8_t { Symbol, Sum, Product, FloorDiv, Mod, Min, Max };

struct Term {
  int64_t coefficient;
  Expr factor;  // an atom or a Product; never a constant or a Sum
};

struct ExprNode {
  ExprKind kind;
  uint32_t id;  // creation order within the context
  ExprContext* context;
  // Symbol
  SymbolKind symbol_kind = SymbolKind::Size;
  uint32_t symbol = 0;  // dense index among the context's symbols
  std::string name;
  int64_t hint = 0;  // Size: the value seen during the trace
  int64_t lower = 0;
  std::optional<Expr> upper;
  // The known constant bounds, and the value under the hints. Computed once, when the node is made.
  std::optional<int64_t> known_lower, known_upper;
  int64_t known_hint = 0;
  // Sum: constant + sum of terms (sorted by factor). Product: factors (sorted, repeated for powers).
  int64_t constant = 0;
  std::vector<Term> terms;
  std::vector<Expr> operands;  // Product: factors; FloorDiv, Mod, Min, Max: the two operands
};

class ExprContext {
 public:
  ExprContext();
  ~ExprContext();
  ExprContext(const ExprContext&) = delete;
  ExprContext& operator=(const ExprContext&) = delete;

  // A tensor size or an integer argument. Sizes are at least 2 because 0 and 1 are specialized; integers pass `lower`.
  Expr size_symbol(std::string name, int64_t hint, int64_t lower = 2);
  // The variable of a loop: 0 <= var < extent.
  Expr loop_symbol(std::string name, Expr extent);
  // A value known only while a kernel runs (a gathered index).
  Expr indirect_symbol(std::string name);
  std::span<const Expr> symbols() const;

  // For the operators above. The node's operands belong to this context.
  Expr intern(ExprNode&& node);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// All of the following accept constants, too.
int64_t hint(Expr e);  // value under the symbols' hints
int64_t evaluate(Expr e, const std::function<int64_t(Expr symbol)>& value_of);
Expr substitute(Expr e, const std::function<Expr(Expr symbol)>& value_of);
bool contains(Expr e, Expr symbol);
std::vector<Expr> symbols_of(Expr e);  // distinct, in node order
// The coefficient of `symbol` if e is affine in it (e = c * symbol + rest, and rest has no `symbol`); nullopt
// otherwise.
std::optional<Expr> coefficient_of(Expr e, Expr symbol);
// The greatest known lower bound and the least known upper bound; nullopt if unbounded or not constant.
std::optional<int64_t> lower_bound(Expr e);
std::optional<int64_t> upper_bound(Expr e);
// True only if provable for every value of the symbols.
bool provably_equal(Expr a, Expr b);
bool provably_less(Expr a, Expr b);       // a < b
bool provably_at_least(Expr a, Expr b);   // a >= b
bool provably_divisible(Expr a, Expr b);  // a mod b == 0

std::string to_string(Expr e);  // "4*s0 + (s1 // 2) + 3"
// The inverse of to_string. Symbols are looked up by name in `context`. Throws UserError.
Expr parse_expr(ExprContext& context, std::string_view text);

// An expression as a postfix program that runs without a context and without pointers.
struct ExprProgram {
  enum class Code : uint8_t { Constant, Symbol, Add, Mul, FloorDiv, Mod, Min, Max };
  struct Step {
    Code code;
    int64_t value = 0;  // Constant: the value; Symbol: index into the symbol values
  };
  std::vector<Step> steps;
  bool is_constant() const { return steps.size() == 1 && steps[0].code == Code::Constant; }
  int64_t run(std::span<const int64_t> symbol_values) const;
};
// `slot_of` gives each symbol its index among the symbol values of a run.
ExprProgram compile(Expr e, const std::function<int64_t(Expr symbol)>& slot_of);

}  // namespace vesta

template <>
struct std::hash<vesta::Expr> {
  size_t operator()(const vesta::Expr& e) const { return e.hash(); }
};
