// Pointwise bodies, run over doubles: the corner cases that ATen's kernels define.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "graph/graph.h"
#include "graph/rules/operands.h"

namespace vesta::graph {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// Computes while it builds: a handle is the place of a double.
class DoubleBuilder : public ScalarBuilder {
 public:
  ScalarRef put(DType t, double v) {
    values_.push_back(v);
    return {static_cast<uint32_t>(values_.size() - 1), t};
  }
  double at(ScalarRef r) const { return values_.at(r.id); }
  ScalarRef constant(DType t, double v) override { return put(t, v); }
  ScalarRef integer(DType t, int64_t v) override { return put(t, static_cast<double>(v)); }
  ScalarRef size(DType t, Expr e) override { return put(t, static_cast<double>(hint(e))); }
  ScalarRef cast(DType to, ScalarRef x) override { return put(to, at(x)); }
  ScalarRef emit(Prim p, std::span<const ScalarRef> x) override {
    const double a = at(x[0]), b = x.size() > 1 ? at(x[1]) : 0, c = x.size() > 2 ? at(x[2]) : 0;
    const bool unordered = std::isnan(a) || std::isnan(b);
    const DType t = yields_bool(p) ? DType::Bool : p == Prim::Select ? x[1].dtype : x[0].dtype;
    const auto value = [&]() -> double {
      switch (p) {
        case Prim::Neg: return -a;
        case Prim::Abs: return std::fabs(a);
        case Prim::Not: return t == DType::Bool ? !a : static_cast<double>(~static_cast<int64_t>(a));
        case Prim::Sqrt: return std::sqrt(a);
        case Prim::Rsqrt: return 1 / std::sqrt(a);
        case Prim::Exp: return std::exp(a);
        case Prim::Expm1: return std::expm1(a);
        case Prim::Log: return std::log(a);
        case Prim::Log1p: return std::log1p(a);
        case Prim::Tanh: return std::tanh(a);
        case Prim::Erf: return std::erf(a);
        case Prim::Sigmoid: return 1 / (1 + std::exp(-a));
        case Prim::Floor: return std::floor(a);
        case Prim::Trunc: return std::trunc(a);
        case Prim::Round: return std::nearbyint(a);
        case Prim::IsNan: return std::isnan(a);
        case Prim::IsInf: return std::isinf(a);
        case Prim::Add: return a + b;
        case Prim::Sub: return a - b;
        case Prim::Mul: return a * b;
        case Prim::Div: return is_float(t) ? a / b : std::trunc(a / b);
        case Prim::FloorDiv: return std::floor(a / b);
        case Prim::Rem: return std::fmod(a, b);
        case Prim::Mod: return a - std::floor(a / b) * b;
        case Prim::Pow: return std::pow(a, b);
        case Prim::CopySign: return std::copysign(a, b);
        case Prim::Max: return unordered ? kNaN : std::fmax(a, b);
        case Prim::Min: return unordered ? kNaN : std::fmin(a, b);
        case Prim::And: return static_cast<double>(static_cast<int64_t>(a) & static_cast<int64_t>(b));
        case Prim::Or: return static_cast<double>(static_cast<int64_t>(a) | static_cast<int64_t>(b));
        case Prim::Xor: return static_cast<double>(static_cast<int64_t>(a) ^ static_cast<int64_t>(b));
        case Prim::Eq: return a == b;
        case Prim::Ne: return a != b;
        case Prim::Lt: return a < b;
        case Prim::Le: return a <= b;
        case Prim::Gt: return a > b;
        case Prim::Ge: return a >= b;
        case Prim::Select: return a != 0 ? b : c;
        default: ADD_FAILURE() << "primitive " << name(p) << " is not in this interpreter"; return kNaN;
      }
    };
    return put(t, value());
  }

 private:
  std::vector<double> values_;
};

// Runs the body of `op`: each tensor argument has one element of type t.
double run(std::string_view op, DType t, std::vector<double> x,
           std::vector<std::pair<std::string_view, Arg>> named = {}) {
  const Op& o = get_op(op);
  std::deque<Value> values;
  std::vector<Arg> args;
  size_t next = 0;
  for (const SchemaArg& a : o.schema.args) {
    const auto it = std::find_if(named.begin(), named.end(), [&](const auto& n) { return n.first == a.name; });
    if (it != named.end()) {
      args.push_back(it->second);
    } else if (a.type == ArgType::Tensor) {
      values.emplace_back().type = TensorType{t, {Expr(1)}, {Expr(1)}, {}};
      args.push_back(&values.back());
      ++next;
    } else {
      args.push_back(a.has_default ? a.default_value : Arg(None{}));
    }
  }
  const NodeArgs node(o.schema, args);
  const PointwiseTypes types = pointwise_types(*o.row, node);
  DoubleBuilder b;
  std::vector<ScalarRef> operands;
  size_t given = 0;
  for (const PointwiseOperand& p : types.operands) {
    const Arg& a = args[p.arg];
    double v = 0;
    if (std::holds_alternative<Value*>(a)) v = x.at(given++);
    if (const auto* d = std::get_if<double>(&a)) v = *d;
    if (const auto* e = std::get_if<Expr>(&a)) v = static_cast<double>(e->constant());
    operands.push_back(b.put(p.to, v));
  }
  EXPECT_EQ(given, next);
  return b.at(o.row->body(b, node, operands));
}

TEST(OpBodies, NotANumberPassesThroughClampAndRelu) {
  EXPECT_TRUE(std::isnan(run("aten::relu", DType::F32, {kNaN})));
  EXPECT_TRUE(std::isnan(run("aten::clamp", DType::F32, {kNaN}, {{"min", 0.0}, {"max", 1.0}})));
  EXPECT_TRUE(std::isnan(run("aten::clamp", DType::F32, {3}, {{"min", kNaN}})));
  EXPECT_TRUE(std::isnan(run("aten::maximum", DType::F32, {kNaN, 1})));
  EXPECT_EQ(run("aten::clamp", DType::F32, {5}, {{"min", 3.0}, {"max", 1.0}}), 1);  // max wins
  EXPECT_EQ(run("aten::relu", DType::F32, {-2}), 0);
}

TEST(OpBodies, DivisionRoundsAsAsked) {
  EXPECT_EQ(run("aten::div.Tensor_mode", DType::F32, {-7, 2}, {{"rounding_mode", std::string("floor")}}), -4);
  EXPECT_EQ(run("aten::div.Tensor_mode", DType::F32, {-7, 2}, {{"rounding_mode", std::string("trunc")}}), -3);
  EXPECT_EQ(run("aten::div.Tensor_mode", DType::I64, {-7, 2}, {{"rounding_mode", std::string("floor")}}), -4);
  EXPECT_EQ(run("aten::floor_divide", DType::F32, {1, 0}), kInf);
  EXPECT_TRUE(std::signbit(run("aten::floor_divide", DType::F32, {-0.0, 3})));
  EXPECT_EQ(run("aten::remainder.Tensor", DType::F32, {-7, 3}), 2);
  EXPECT_EQ(run("aten::fmod.Tensor", DType::F32, {-7, 3}), -1);
}

TEST(OpBodies, SignsAndPowers) {
  EXPECT_EQ(run("aten::sign", DType::F32, {-0.0}), 0);
  EXPECT_EQ(run("aten::sign", DType::F32, {kNaN}), 0);
  EXPECT_EQ(run("aten::sign", DType::I64, {-9}), -1);
  EXPECT_EQ(run("aten::pow.Tensor_Scalar", DType::I64, {-3}, {{"exponent", Expr(5)}}), -243);
  EXPECT_EQ(run("aten::pow.Tensor_Scalar", DType::F32, {4}, {{"exponent", -0.5}}), 0.5);
  EXPECT_EQ(run("aten::round", DType::F32, {2.5}), 2);
}

TEST(OpBodies, AlphaScalesTheSecondOperand) {
  EXPECT_EQ(run("aten::add.Tensor", DType::F32, {1, 10}, {{"alpha", Expr(3)}}), 31);
  EXPECT_EQ(run("aten::sub.Tensor", DType::F32, {1, 10}, {{"alpha", 0.5}}), -4);
  EXPECT_EQ(run("aten::rsub.Tensor", DType::F32, {1, 10}, {{"alpha", Expr(2)}}), 8);
  EXPECT_EQ(run("aten::add.Tensor", DType::Bool, {1, 1}), 1);
}

TEST(OpBodies, Activations) {
  const Arg none = std::string("none"), curve = std::string("tanh");
  EXPECT_NEAR(run("aten::gelu", DType::F64, {1}, {{"approximate", none}}), 0.8413447460685429, 1e-12);
  EXPECT_NEAR(run("aten::gelu", DType::F64, {1}, {{"approximate", curve}}), 0.8411919906082768, 1e-12);
  EXPECT_NEAR(run("aten::silu", DType::F64, {2}), 1.7615941559557649, 1e-12);
  EXPECT_EQ(run("aten::softplus", DType::F64, {21}, {{"beta", Expr(1)}, {"threshold", Expr(20)}}), 21);
  EXPECT_NEAR(run("aten::elu", DType::F64, {-1}, {{"alpha", 2.0}}), 2 * std::expm1(-1), 1e-12);
  EXPECT_EQ(run("aten::hardswish", DType::F64, {4}), 4);
  EXPECT_EQ(run("aten::threshold_backward", DType::F32, {5, 0}, {{"threshold", Expr(0)}}), 0);
}

// The derivative formulas against a difference quotient of the functions themselves.
TEST(OpBodies, GradientsMatchDifferences) {
  const Arg none = std::string("none"), curve = std::string("tanh");
  struct Pair {
    const char *forward, *backward;
    std::vector<std::pair<std::string_view, Arg>> args;
  };
  const std::vector<Pair> pairs = {{"aten::gelu", "aten::gelu_backward", {{"approximate", none}}},
                                   {"aten::gelu", "aten::gelu_backward", {{"approximate", curve}}},
                                   {"aten::silu", "aten::silu_backward", {}},
                                   {"aten::mish", "aten::mish_backward", {}},
                                   {"aten::hardswish", "aten::hardswish_backward", {}}};
  for (const Pair& p : pairs) {
    for (double v : {-2.5, -0.7, 0.3, 1.9}) {
      const double h = 1e-6;
      const double slope =
          (run(p.forward, DType::F64, {v + h}, p.args) - run(p.forward, DType::F64, {v - h}, p.args)) / (2 * h);
      EXPECT_NEAR(run(p.backward, DType::F64, {1, v}, p.args), slope, 1e-7) << p.backward << " at " << v;
    }
  }
}

TEST(OpBodies, PromotionFollowsCategories) {
  const auto promoted = [](DType a, size_t dim_a, Arg other) {
    const Op& o = get_op("aten::mul.Scalar");
    Value v;
    v.type = TensorType{a, std::vector<Expr>(dim_a, Expr(2)), std::vector<Expr>(dim_a, Expr(1)), {}};
    const std::vector<Arg> args = {&v, std::move(other)};
    return pointwise_types(*o.row, NodeArgs(o.schema, args)).result;
  };
  EXPECT_EQ(promoted(DType::BF16, 1, 2.5), DType::BF16);
  EXPECT_EQ(promoted(DType::I32, 1, 2.5), DType::F32);
  EXPECT_EQ(promoted(DType::I8, 1, Expr(300)), DType::I8);
  EXPECT_EQ(promoted(DType::Bool, 1, Expr(3)), DType::I64);
  EXPECT_EQ(promoted(DType::F16, 0, std::complex<double>(0, 1)), DType::C32);
}

}  // namespace
}  // namespace vesta::graph
