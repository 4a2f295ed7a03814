// Vesta in a C++ program: compiles a callable, calls it with several shapes, and shows what happened.
#include <torch/torch.h>
#include <vesta/compile.h>

#include <cstdio>
#include <tuple>
#include <vector>

namespace {

// Whether `ours` is at most twice as far from the float64 result as eager is.
bool close(const at::Tensor& ours, const at::Tensor& eager, const at::Tensor& exact) {
  const double bound = 2 * (eager.to(at::kDouble) - exact).abs().max().item<double>() + 1e-6;
  return ours.sizes() == eager.sizes() && ours.dtype() == eager.dtype() &&
         (ours.to(at::kDouble) - exact).abs().max().item<double>() <= bound;
}

bool report(const char* what, bool ok) {
  std::printf("%-28s %s\n", what, ok ? "as eager" : "DIFFERS");
  return ok;
}

}  // namespace

int main() {
  const at::NoGradGuard no_grad;
  at::manual_seed(0);
  bool ok = true;

  // A lambda with ordinary eager code.
  const auto swish = [](const at::Tensor& x, const at::Tensor& w) { return at::silu(at::mm(x, w)); };
  const auto f = vesta::compile(swish);
  for (const int64_t rows : {8, 8, 32}) {  // the second call runs the first one's code; a new shape compiles again
    const at::Tensor x = at::randn({rows, 16});
    const at::Tensor w = at::randn({16, 24});
    ok &= report("silu(mm(x, w))", close(f(x, w), swish(x, w), swish(x.to(at::kDouble), w.to(at::kDouble))));
  }

  // Several results, and a container of tensors.
  const auto statistics = [](const std::vector<at::Tensor>& parts) {
    const at::Tensor all = at::cat(parts, 1);
    return std::make_tuple(at::softmax(all, -1), all.mean(-1));
  };
  const auto g = vesta::compile(statistics);
  const std::vector<at::Tensor> parts{at::randn({4, 10}), at::randn({4, 22})};
  const auto [ours_p, ours_m] = g(parts);
  const auto [eager_p, eager_m] = statistics(parts);
  const auto [exact_p, exact_m] = statistics({parts[0].to(at::kDouble), parts[1].to(at::kDouble)});
  ok &= report("softmax", close(ours_p, eager_p, exact_p));
  ok &= report("mean", close(ours_m, eager_m, exact_m));

  // A module.
  torch::nn::Sequential model(torch::nn::Linear(16, 32), torch::nn::GELU(),
                              torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})));
  model->eval();
  const auto forward = vesta::compile([model](const at::Tensor& x) mutable { return model->forward(x); });
  const at::Tensor x = at::randn({6, 16});
  const at::Tensor ours = forward(x);
  const at::Tensor eager = model->forward(x);
  model->to(at::kDouble);
  ok &= report("Linear, GELU, LayerNorm", close(ours, eager, model->forward(x.to(at::kDouble))));

  std::printf("\n%s", f.explain().c_str());
  return ok ? 0 : 1;
}
