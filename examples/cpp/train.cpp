// Training in a C++ program: the loss of a compiled network is computed, loss.backward() runs its compiled backward
// pass, and torch::optim updates the parameters. The same steps without Vesta give the same losses.
#include <torch/torch.h>
#include <vesta/compile.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <vector>

namespace {

constexpr int64_t kClasses = 10, kSide = 14, kBatch = 64;
constexpr int kSteps = 60;

// Images of digits of a kind: each class is a pattern, seen through noise.
struct Digits {
  at::Tensor patterns = at::randn({kClasses, 1, kSide, kSide});
  std::pair<at::Tensor, at::Tensor> batch() const {
    const at::Tensor labels = at::randint(kClasses, {kBatch}, at::kLong);
    return {patterns.index_select(0, labels) + 0.8 * at::randn({kBatch, 1, kSide, kSide}), labels};
  }
};

torch::nn::Sequential network() {
  namespace nn = torch::nn;
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 8, 3).stride(2).padding(1)), nn::BatchNorm2d(8), nn::ReLU(),
                        nn::Flatten(), nn::Linear(8 * (kSide / 2) * (kSide / 2), 64), nn::GELU(),
                        nn::Linear(64, kClasses));
}

using Loss = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

std::vector<double> train(torch::nn::Sequential model, const Loss& loss_of) {
  at::manual_seed(1);
  const Digits digits;
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(3e-3));
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    const auto [images, labels] = digits.batch();
    optimizer.zero_grad();
    const at::Tensor loss = loss_of(images, labels);
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

Loss loss_of(torch::nn::Sequential model) {
  return [model](const at::Tensor& images, const at::Tensor& labels) mutable {
    return torch::nn::functional::cross_entropy(model->forward(images), labels);
  };
}

}  // namespace

int main() {
  at::manual_seed(0);
  torch::nn::Sequential model = network();
  at::manual_seed(0);
  torch::nn::Sequential plain = network();
  const auto compiled = vesta::compile(
      [loss = loss_of(model)](const at::Tensor& images, const at::Tensor& labels) { return loss(images, labels); });
  const std::vector<double> ours =
      train(model, [&](const at::Tensor& images, const at::Tensor& labels) { return compiled(images, labels); });
  const std::vector<double> eager = train(plain, loss_of(plain));
  double worst = 0;
  for (int step = 0; step < kSteps; ++step) {
    worst = std::max(worst, std::abs(ours[step] - eager[step]) / eager[step]);
    if (step % 10 == 0) std::printf("step %2d   loss %.4f   eager %.4f\n", step, ours[step], eager[step]);
  }
  const vesta::FunctionReport report = compiled.report();
  std::printf("\n%s\n", vesta::to_string(report).c_str());
  const bool learned = ours.back() < 0.2 * ours.front();
  std::printf("largest difference of a loss: %.2g of it\n", worst);
  std::printf("%s\n", learned && worst < 1e-2 && report.fallbacks.empty() ? "as eager" : "DIFFERS");
  return learned && worst < 1e-2 && report.fallbacks.empty() ? 0 : 1;
}
