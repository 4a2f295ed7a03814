#include "trace/tensors/sym_node.h"

#include <c10/util/Exception.h>
#include <algorithm>

#include <cmath>

#include "base/check.h"
#include "graph/rules/broadcast.h"

namespace vesta::trace {

using graph::Relation;

static Relation negated(Relation r) {
  constexpr Relation kNegated[] = {Relation::NotEqual, Relation::Equal, Relation::AtLeast, Relation::Less};
  return kNegated[static_cast<size_t>(r)];
}

std::optional<bool> decide(const Comparison& c) {
  switch (c.relation) {
    case Relation::Equal:
      if (provably_equal(c.left, c.right)) return true;
      if (provably_less(c.left, c.right) || provably_less(c.right, c.left)) return false;
      return std::nullopt;
    case Relation::Less:
      if (provably_less(c.left, c.right)) return true;
      if (provably_at_least(c.left, c.right)) return false;
      return std::nullopt;
    case Relation::NotEqual:
    case Relation::AtLeast: break;
  }
  const std::optional<bool> opposite = decide({c.left, negated(c.relation), c.right});
  return opposite ? std::optional(!*opposite) : std::nullopt;
}

namespace {
// Slices to the end arrive as INT64_MAX. Sizes and positions are always far below the limits of an Expr.
Expr constant(int64_t v) {
  constexpr int64_t kFar = int64_t{1} << 61;
  return Expr(std::clamp(v, -kFar, kFar));
}
}  // namespace

Expr to_expr(const c10::SymInt& v) {
  if (const auto i = v.maybe_as_int()) return constant(*i);
  auto* node = dynamic_cast<SymNode*>(v.toSymNodeImplUnowned());
  if (!node || !node->expr()) VESTA_UNSUPPORTED("a symbolic integer of another trace");
  return *node->expr();
}

c10::SymInt to_sym_int(const std::shared_ptr<GuardSink>& sink, Expr e) {
  if (e.is_constant()) return c10::SymInt(e.constant());
  return c10::SymInt(c10::SymNode(c10::make_intrusive<SymNode>(sink, e)));
}

Expr SymNode::integer() const {
  const Expr* e = expr();
  if (!e) VESTA_UNSUPPORTED("integer arithmetic on a symbolic value that is not an integer");
  return *e;
}

Expr SymNode::integer(const c10::SymNode& o) const {
  if (auto* node = dynamic_cast<SymNode*>(o.get())) return node->integer();
  if (o->is_int())
    if (const auto v = o->maybe_as_int()) return constant(*v);
  VESTA_UNSUPPORTED("a symbolic integer of another trace");
}

double SymNode::number(const c10::SymNode& o) const {
  if (o->is_float()) return o->guard_float(__FILE__, __LINE__);
  return static_cast<double>(o->guard_int(__FILE__, __LINE__));
}

c10::SymNode SymNode::compare(Expr a, Relation r, Expr b) const {
  const Comparison c{a, r, b};
  if (const auto known = decide(c)) return make(*known);
  return make(c);
}

#define VESTA_ARITHMETIC(method, on_integers, on_floats) \
  c10::SymNode SymNode::method(const c10::SymNode& o) {  \
    if (is_float() || o->is_float()) {                   \
      const double a = number(clone()), b = number(o);   \
      return make(Payload(on_floats));                   \
    }                                                    \
    const Expr a = integer(), b = integer(o);            \
    return make(Payload(on_integers));                   \
  }
VESTA_ARITHMETIC(add, a + b, a + b)
VESTA_ARITHMETIC(sub, a - b, a - b)
VESTA_ARITHMETIC(mul, a* b, a* b)
VESTA_ARITHMETIC(sym_min, min(a, b), std::min(a, b))
VESTA_ARITHMETIC(sym_max, max(a, b), std::max(a, b))
#undef VESTA_ARITHMETIC

#define VESTA_COMPARISON(method, on_integers, on_floats)                             \
  c10::SymNode SymNode::method(const c10::SymNode& o) {                              \
    if (is_float() || o->is_float()) {                                               \
      const double a = number(clone()), b = number(o);                               \
      return make(Payload(on_floats));                                               \
    }                                                                                \
    if (is_bool() || o->is_bool()) VESTA_UNSUPPORTED("comparing symbolic booleans"); \
    const Expr a = integer(), b = integer(o);                                        \
    return on_integers;                                                              \
  }
VESTA_COMPARISON(eq, compare(a, Relation::Equal, b), a == b)
VESTA_COMPARISON(ne, compare(a, Relation::NotEqual, b), a != b)
VESTA_COMPARISON(lt, compare(a, Relation::Less, b), a < b)
VESTA_COMPARISON(ge, compare(a, Relation::AtLeast, b), a >= b)
VESTA_COMPARISON(gt, compare(b, Relation::Less, a), a > b)
VESTA_COMPARISON(le, compare(b, Relation::AtLeast, a), a <= b)
#undef VESTA_COMPARISON

c10::SymNode SymNode::truediv(const c10::SymNode& o) {
  const double b = number(o);
  TORCH_CHECK(b != 0, "division by zero");
  return make(number(clone()) / b);
}

c10::SymNode SymNode::pow(const c10::SymNode& o) {
  if (is_float() || o->is_float()) return make(std::pow(number(clone()), number(o)));
  const int64_t n = o->guard_int(__FILE__, __LINE__);
  if (n < 0) return make(std::pow(number(clone()), static_cast<double>(n)));
  Expr result = 1;
  for (int64_t i = 0; i < n; ++i) result = result * integer();
  return make(result);
}

c10::SymNode SymNode::floordiv(const c10::SymNode& o) {
  if (is_float() || o->is_float()) return make(std::floor(number(clone()) / number(o)));
  const Expr b = integer(o);
  TORCH_CHECK(!b.is_constant(0), "integer division by zero");
  if (!b.is_constant() && sink_->guards().equal(b, 0)) TORCH_CHECK(false, "integer division by zero");
  return make(vesta::floordiv(integer(), b));
}

c10::SymNode SymNode::mod(const c10::SymNode& o) {
  if (is_float() || o->is_float()) {
    const double b = number(o), r = std::fmod(number(clone()), b);
    return make(r != 0 && (r < 0) != (b < 0) ? r + b : r);
  }
  const Expr b = integer(o);
  TORCH_CHECK(!b.is_constant(0), "integer modulo by zero");
  if (!b.is_constant() && sink_->guards().equal(b, 0)) TORCH_CHECK(false, "integer modulo by zero");
  return make(vesta::mod(integer(), b));
}

c10::SymNode SymNode::ceil() {
  return is_float() ? make(Expr(static_cast<int64_t>(std::ceil(number(clone()))))) : clone();
}
c10::SymNode SymNode::floor() {
  return is_float() ? make(Expr(static_cast<int64_t>(std::floor(number(clone()))))) : clone();
}
c10::SymNode SymNode::wrap_int(int64_t v) { return make(constant(v)); }

// An undecided operand is decided now. That may be one guard more than needed, but never a wrong answer.
c10::SymNode SymNode::sym_or(const c10::SymNode& o) {
  if (const auto b = o->constant_bool()) return *b ? make(true) : clone();
  return guard_bool("", 0) ? make(true) : o;
}
c10::SymNode SymNode::sym_and(const c10::SymNode& o) {
  if (const auto b = o->constant_bool()) return *b ? clone() : make(false);
  return guard_bool("", 0) ? o : make(false);
}
c10::SymNode SymNode::sym_not() {
  if (const bool* b = std::get_if<bool>(&payload_)) return make(!*b);
  auto* c = std::get_if<Comparison>(&payload_);
  if (!c) VESTA_UNSUPPORTED("a symbolic number is negated logically");
  return make(Comparison{c->left, negated(c->relation), c->right});
}
c10::SymNode SymNode::sym_ite(const c10::SymNode& then_value, const c10::SymNode& else_value) {
  return guard_bool("", 0) ? then_value : else_value;
}

int64_t SymNode::guard_int(const char*, int64_t) {
  const Expr e = integer();
  return e.is_constant() ? e.constant() : sink_->guards().specialize(e);
}

bool SymNode::guard_bool(const char*, int64_t) {
  if (const bool* b = std::get_if<bool>(&payload_)) return *b;
  const auto* c = std::get_if<Comparison>(&payload_);
  if (!c) VESTA_UNSUPPORTED("the truth value of a symbolic number is needed");
  switch (c->relation) {
    case Relation::Equal: return sink_->guards().equal(c->left, c->right);
    case Relation::NotEqual: return !sink_->guards().equal(c->left, c->right);
    case Relation::Less: return sink_->guards().less(c->left, c->right);
    case Relation::AtLeast: return !sink_->guards().less(c->left, c->right);
  }
  VESTA_CHECK(false, "unknown relation");
}

double SymNode::guard_float(const char*, int64_t) {
  if (const double* d = std::get_if<double>(&payload_)) return *d;
  return static_cast<double>(guard_int("", 0));
}

std::optional<bool> SymNode::constant_bool() {
  if (const bool* b = std::get_if<bool>(&payload_)) return *b;
  if (const auto* c = std::get_if<Comparison>(&payload_)) return decide(*c);
  return std::nullopt;
}

std::optional<int64_t> SymNode::maybe_as_int() {
  const Expr* e = expr();
  return e && e->is_constant() ? std::optional<int64_t>(e->constant()) : std::nullopt;
}

bool SymNode::is_constant() {
  return std::holds_alternative<double>(payload_) || constant_bool().has_value() || maybe_as_int().has_value();
}

std::string SymNode::str() {
  if (const Expr* e = expr()) return to_string(*e);
  if (const bool* b = std::get_if<bool>(&payload_)) return *b ? "True" : "False";
  if (const double* d = std::get_if<double>(&payload_)) return fmt::format("{}", *d);
  const auto& c = std::get<Comparison>(payload_);
  static constexpr const char* kRelations[] = {"==", "!=", "<", ">="};
  return fmt::format("{} {} {}", to_string(c.left), kRelations[static_cast<int>(c.relation)], to_string(c.right));
}

graph::TensorType SymNode::shape(c10::ArrayRef<c10::SymNode> sizes, c10::ArrayRef<c10::SymNode> strides) const {
  graph::TensorType t;
  for (const auto& s : sizes) t.sizes.push_back(integer(s));
  for (const auto& s : strides) t.strides.push_back(integer(s));
  return t;
}

c10::SymNode SymNode::is_contiguous(c10::ArrayRef<c10::SymNode> s, c10::ArrayRef<c10::SymNode> t) {
  return make(graph::is_contiguous(sink_->guards(), shape(s, t)));
}
c10::SymNode SymNode::is_channels_last_contiguous_2d(c10::ArrayRef<c10::SymNode> s, c10::ArrayRef<c10::SymNode> t) {
  return make(graph::is_contiguous(sink_->guards(), shape(s, t), MemoryFormat::ChannelsLast));
}
c10::SymNode SymNode::is_channels_last_contiguous_3d(c10::ArrayRef<c10::SymNode> s, c10::ArrayRef<c10::SymNode> t) {
  return make(graph::is_contiguous(sink_->guards(), shape(s, t), MemoryFormat::ChannelsLast3d));
}
c10::SymNode SymNode::is_channels_last_strides_2d(c10::ArrayRef<c10::SymNode> s, c10::ArrayRef<c10::SymNode> t) {
  return make(graph::suggest_memory_format(sink_->guards(), shape(s, t)) == MemoryFormat::ChannelsLast);
}
c10::SymNode SymNode::is_channels_last_strides_3d(c10::ArrayRef<c10::SymNode> s, c10::ArrayRef<c10::SymNode> t) {
  return make(graph::suggest_memory_format(sink_->guards(), shape(s, t)) == MemoryFormat::ChannelsLast3d);
}
c10::SymNode SymNode::is_non_overlapping_and_dense(c10::ArrayRef<c10::SymNode> s, c10::ArrayRef<c10::SymNode> t) {
  return make(graph::is_dense(sink_->guards(), shape(s, t)));
}

}  // namespace vesta::trace
