// Random graphs: the fused plan and the plan with one kernel a node give the same numbers.
#include <algorithm>
#include <cstdlib>

#include "schedule_run.h"

namespace {

using namespace vesta;
using namespace vesta::testing;
using graph::Arg;
using graph::Builder;
using graph::Graph;
using graph::IntList;
using graph::Value;
using graph::ValueList;

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed), b_(g_) {}

  Graph& run(int nodes) {
    int inputs = 1 + pick(3);
    std::vector<Expr> base = sizes();
    for (int i = 0; i < inputs; ++i) {
      std::vector<Expr> s = base;
      for (Expr& e : s) {
        if (pick(5) == 0) e = 1;
      }
      graph::TensorType t;
      t.sizes = s;
      t.strides = graph::contiguous_strides(s);
      if (pick(3) == 0 && s.size() > 1) {  // a transposed input
        std::swap(s[0], s.back());
        t.strides = graph::contiguous_strides(s);
        std::swap(t.strides[0], t.strides.back());
      }
      values_.push_back(g_.add_input(t, graph::InputKind::Argument, "x"));
    }
    for (int i = 0; i < nodes; ++i) step();
    int outputs = 1 + pick(3);
    for (int i = 0; i < outputs; ++i)
      give(values_[values_.size() - 1 -
                   static_cast<size_t>(pick(static_cast<int>(std::min<size_t>(values_.size(), 5))))]);
    if (pick(3) == 0) {
      for (Value* v : values_) {
        if (v->producer && v->type.sizes == g_.inputs[0].value->type.sizes) {
          g_.mutations.push_back({0, v});
          break;
        }
      }
    }
    return g_;
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  std::vector<Expr> sizes() {
    static const int64_t choices[] = {2, 3, 4, 6, 8, 17};
    std::vector<Expr> s;
    for (int n = 1 + pick(4); n > 0; --n) s.push_back(choices[pick(6)]);
    return s;
  }

  void give(Value* v) {
    graph::Output o;
    o.value = v;
    g_.outputs.push_back(o);
  }

  Value* any() {
    // Mostly recent values, so that chains grow.
    size_t back = static_cast<size_t>(pick(pick(2) ? 3 : static_cast<int>(values_.size())));
    return values_[values_.size() - 1 - std::min(back, values_.size() - 1)];
  }

  void step() {
    Value* x = any();
    const std::vector<Expr>& s = x->type.sizes;
    int n = static_cast<int>(s.size());
    switch (pick(12)) {
      case 0:
      case 1: {
        static const char* const ops[] = {"aten::tanh", "aten::relu", "aten::sigmoid", "aten::neg"};
        return keep(b_(ops[pick(4)], {x}));
      }
      case 2:
      case 3:
      case 4: {
        static const char* const ops[] = {"aten::add.Tensor", "aten::sub.Tensor", "aten::mul.Tensor"};
        for (int tries = 0; tries < 8; ++tries) {
          Value* y = any();
          bool ok = true;
          for (size_t d = 0; d < std::min(s.size(), y->type.dim()); ++d) {
            Expr a = s[s.size() - 1 - d], c = y->type.sizes[y->type.dim() - 1 - d];
            ok &= a == c || a.is_constant(1) || c.is_constant(1);
          }
          if (ok) return keep(b_(ops[pick(3)], {x, y}));
        }
        return;
      }
      case 5:
      case 6: {
        if (n == 0) return;
        IntList dims;
        for (int d = 0; d < n; ++d) {
          if (pick(2)) dims.push_back(d);
        }
        if (dims.empty()) dims.push_back(n - 1);
        Value* r = b_(pick(2) ? "aten::sum.dim_IntList" : "aten::amax", {x, dims, pick(3) != 0});
        return keep(b_("aten::tanh", {r}));
      }
      case 7: {
        std::vector<int> order;
        for (int d = 0; d < n; ++d) order.push_back(d);
        std::shuffle(order.begin(), order.end(), random_);
        IntList dims(order.begin(), order.end());
        return keep(b_("aten::permute", {x, dims}));
      }
      case 8: {
        if (!graph::is_contiguous(x->type))
          return keep(b_("aten::clone", {x}, {{"memory_format", MemoryFormat::Contiguous}}));
        int64_t numel = 1;
        for (Expr e : s) numel *= e.constant();
        IntList shape;
        for (int64_t rest = numel; rest > 1 || shape.empty();) {
          std::vector<int64_t> divisors;
          for (int64_t d = 2; d <= rest; ++d) {
            if (rest % d == 0) divisors.push_back(d);
          }
          int64_t d = divisors.empty() ? 1 : divisors[static_cast<size_t>(pick(static_cast<int>(divisors.size())))];
          shape.push_back(d);
          rest /= d;
          if (rest == 1) break;
        }
        return keep(b_("aten::view", {x, shape}));
      }
      case 9: {
        if (n == 0) return;
        int d = pick(n);
        int64_t e = s[static_cast<size_t>(d)].constant();
        if (e < 2) return;
        int64_t start = pick(static_cast<int>(e)), step = 1 + pick(2);
        return keep(b_("aten::slice.Tensor", {x, Expr(d), Expr(start), Expr(e), Expr(step)}));
      }
      case 10: {
        if (n == 0) return;
        int d = pick(n);
        Value* y = any();
        if (y->type.dim() != s.size()) y = x;
        for (size_t k = 0; k < s.size(); ++k) {
          if (static_cast<int>(k) != d && y->type.sizes[k] != s[k]) y = x;
        }
        return keep(b_("aten::cat", {ValueList{x, y}, Expr(d)}));
      }
      default: {
        if (n == 0) return;
        if (pick(2)) return keep(b_("aten::flip", {x, IntList{Expr(pick(n))}}));
        return keep(b_("aten::constant_pad_nd", {x, IntList{Expr(pick(3) - 1), Expr(pick(3))}, 0.5}));
      }
    }
  }

  void keep(Value* v) {
    int64_t numel = 1;
    for (Expr e : v->type.sizes) numel *= e.constant();
    if (numel <= 6000 && numel > 0) values_.push_back(v);
  }

  std::mt19937 random_;
  Graph g_;
  Builder b_;
  std::vector<Value*> values_;
};

TEST(RandomPlans, FusedEqualsUnfused) {
  const char* more = std::getenv("VESTA_RANDOM_PLANS");
  const uint32_t count = more ? static_cast<uint32_t>(std::atoi(more)) : 300;
  for (uint32_t seed = 0; seed < count; ++seed) {
    Generator generator(seed);
    Graph& g = generator.run(4 + static_cast<int>(seed % 24));
    SCOPED_TRACE("seed " + std::to_string(seed));
    try {
      check_plan(g, 1e-4);
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
    if (HasFailure()) {
      std::cerr << graph::print(g);
      break;
    }
  }
}

}  // namespace
