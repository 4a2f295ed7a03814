// torch.SymInt over Vesta's expressions. An integer node is an Expr. A boolean node is a comparison, which is decided,
// and becomes a guard, when the program needs its truth. A float node is a constant, because a float made from a size
// specializes it.
#pragma once

#include <c10/core/SymInt.h>
#include <c10/core/SymNodeImpl.h>

#include <memory>
#include <variant>

#include "graph/graph.h"

namespace vesta::trace {

// The part of a trace that nodes need. `guards()` throws Unsupported after the end of the trace.
class GuardSink {
 public:
  virtual ~GuardSink() = default;
  virtual graph::Guards& guards() = 0;
};

// A comparison of left with right. A negation is part of the relation.
struct Comparison {
  Expr left;
  graph::Relation relation;
  Expr right;
};

class SymNode final : public c10::SymNodeImpl {
 public:
  using Payload = std::variant<Expr, bool, double, Comparison>;
  SymNode(std::shared_ptr<GuardSink> sink, Payload payload) : sink_(std::move(sink)), payload_(std::move(payload)) {}

  const Expr* expr() const { return std::get_if<Expr>(&payload_); }

  bool is_int() override { return std::holds_alternative<Expr>(payload_); }
  bool is_bool() override {
    return std::holds_alternative<bool>(payload_) || std::holds_alternative<Comparison>(payload_);
  }
  bool is_float() override { return std::holds_alternative<double>(payload_); }

  c10::SymNode add(const c10::SymNode& o) override;
  c10::SymNode sub(const c10::SymNode& o) override;
  c10::SymNode mul(const c10::SymNode& o) override;
  c10::SymNode truediv(const c10::SymNode& o) override;
  c10::SymNode float_truediv(const c10::SymNode& o) override { return truediv(o); }
  c10::SymNode int_truediv(const c10::SymNode& o) override { return truediv(o); }
  c10::SymNode pow(const c10::SymNode& o) override;
  c10::SymNode float_pow(const c10::SymNode& o) override { return pow(o); }
  c10::SymNode pow_by_natural(const c10::SymNode& o) override { return pow(o); }
  c10::SymNode floordiv(const c10::SymNode& o) override;
  c10::SymNode int_floordiv(const c10::SymNode& o) override { return floordiv(o); }
  c10::SymNode mod(const c10::SymNode& o) override;
  c10::SymNode eq(const c10::SymNode& o) override;
  c10::SymNode ne(const c10::SymNode& o) override;
  c10::SymNode gt(const c10::SymNode& o) override;
  c10::SymNode lt(const c10::SymNode& o) override;
  c10::SymNode le(const c10::SymNode& o) override;
  c10::SymNode ge(const c10::SymNode& o) override;
  c10::SymNode ceil() override;
  c10::SymNode floor() override;
  c10::SymNode neg() override { return is_float() ? make(-std::get<double>(payload_)) : make(-integer()); }
  c10::SymNode sym_min(const c10::SymNode& o) override;
  c10::SymNode sym_max(const c10::SymNode& o) override;
  c10::SymNode sym_or(const c10::SymNode& o) override;
  c10::SymNode sym_and(const c10::SymNode& o) override;
  c10::SymNode sym_not() override;
  c10::SymNode sym_ite(const c10::SymNode& then_value, const c10::SymNode& else_value) override;
  c10::SymNode clone() override { return make(payload_); }
  c10::SymNode sym_float() override { return is_float() ? clone() : make(static_cast<double>(guard_int("", 0))); }
  c10::SymNode wrap_int(int64_t v) override;
  c10::SymNode wrap_float(double v) override { return make(v); }
  c10::SymNode wrap_bool(bool v) override { return make(v); }
  c10::SymNode is_contiguous(c10::ArrayRef<c10::SymNode> sizes, c10::ArrayRef<c10::SymNode> strides) override;
  c10::SymNode is_channels_last_contiguous_2d(c10::ArrayRef<c10::SymNode> s, c10::ArrayRef<c10::SymNode> t) override;
  c10::SymNode is_channels_last_contiguous_3d(c10::ArrayRef<c10::SymNode> s, c10::ArrayRef<c10::SymNode> t) override;
  c10::SymNode is_channels_last_strides_2d(c10::ArrayRef<c10::SymNode> s, c10::ArrayRef<c10::SymNode> t) override;
  c10::SymNode is_channels_last_strides_3d(c10::ArrayRef<c10::SymNode> s, c10::ArrayRef<c10::SymNode> t) override;
  c10::SymNode is_non_overlapping_and_dense(c10::ArrayRef<c10::SymNode> s, c10::ArrayRef<c10::SymNode> t) override;

  int64_t guard_int(const char* file, int64_t line) override;
  bool guard_bool(const char* file, int64_t line) override;
  double guard_float(const char* file, int64_t line) override;
  bool guard_size_oblivious(const char* file, int64_t line) override { return guard_bool(file, line); }
  bool guard_or_false(const char* file, int64_t line) override { return guard_bool(file, line); }
  bool guard_or_true(const char* file, int64_t line) override { return guard_bool(file, line); }
  // Records no guard: true only if the comparison holds for every value of the symbols.
  bool statically_known_true(const char*, int64_t) override { return constant_bool().value_or(false); }
  bool expect_true(const char* file, int64_t line) override { return guard_bool(file, line); }
  int64_t int_() override { return guard_int("", 0); }
  bool bool_() override { return guard_bool("", 0); }
  bool has_hint() override { return true; }
  std::string str() override;
  std::optional<int64_t> constant_int() override { return maybe_as_int(); }
  std::optional<bool> constant_bool() override;
  std::optional<int64_t> maybe_as_int() override;
  bool is_constant() override;
  bool is_symbolic() override { return !is_constant(); }

 private:
  c10::SymNode make(Payload p) const { return c10::make_intrusive<SymNode>(sink_, std::move(p)); }
  c10::SymNode compare(Expr a, graph::Relation r, Expr b) const;
  Expr integer() const;                        // throws Unsupported unless the node is an integer
  Expr integer(const c10::SymNode& o) const;   // of a node of ours, or of a constant of torch's
  double number(const c10::SymNode& o) const;  // specializes
  graph::TensorType shape(c10::ArrayRef<c10::SymNode> sizes, c10::ArrayRef<c10::SymNode> strides) const;

  std::shared_ptr<GuardSink> sink_;
  Payload payload_;
};

// The expression of a torch integer. Throws Unsupported if another system made it.
Expr to_expr(const c10::SymInt& v);
c10::SymInt to_sym_int(const std::shared_ptr<GuardSink>& sink, Expr e);
// true: it holds for every value of the symbols; false: it holds for none; nullopt: undecided.
std::optional<bool> decide(const Comparison& c);

}  // namespace vesta::trace
