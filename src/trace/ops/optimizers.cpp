// Steps of PyTorch's fused optimizers: the arithmetic of ATen's kernels as operators on each tensor, which become one
// kernel again.
#include <ATen/OpMathType.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/where.h>

#include <variant>

#include "graph/rules/broadcast.h"
#include "trace/ops/rows.h"

namespace vesta::trace {
namespace {

using Tensors = std::vector<at::Tensor>;

// A learning rate: known to the trace, or a tensor of one element.
using Rate = std::variant<double, at::Tensor>;

at::Tensor times(const at::Tensor& x, const Rate& rate) {
  return std::visit([&](const auto& r) { return x.mul(r); }, rate);
}

// ATen's kernels compute in this type, and round what they store.
at::Tensor widened(const at::Tensor& x) { return x.to(at::toOpMathType(x.scalar_type())); }

class FusedStep {
 public:
  FusedStep(Recorder& r, const Operator& op, const Stack& stack) : r_(r), op_(op), stack_(stack) {
    for (const at::Tensor& t : named("self").toTensorVector()) params_.push_back(fake(t));
    grads_ = tensors("grads");
    if (const c10::IValue scale = named("grad_scale"); scale.isTensor()) scale_ = number_of(scale.toTensor());
    if (const c10::IValue found = named("found_inf"); found.isTensor()) skips_ = number_of(found.toTensor()).eq(1);
    weight_decay_ = number("weight_decay");
    if (const c10::IValue lr = named("lr"); lr.isTensor())
      lr_ = number_of(lr.toTensor()).to(at::kDouble);
    else
      lr_ = lr.toDouble();
  }

  void adam(bool decoupled) {
    const Tensors averages = tensors("exp_avgs"), squares = tensors("exp_avg_sqs"), steps = counters();
    const bool amsgrad = flag("amsgrad");
    const Tensors largest = amsgrad ? tensors("max_exp_avg_sqs") : Tensors();
    const double beta1 = number("beta1"), beta2 = number("beta2"), eps = number("eps");
    for (size_t i = 0; i < params_.size(); ++i) {
      const at::Tensor correction1 = at::rsub(at::pow(beta1, steps[i]), 1);
      const at::Tensor correction2 = at::rsub(at::pow(beta2, steps[i]), 1);
      const at::Tensor grad = gradient(i, !decoupled);
      at::Tensor param = widened(params_[i]);
      if (decoupled && weight_decay_ != 0) param = decayed(param);
      const at::Tensor average = at::lerp(widened(averages[i]), grad, 1 - beta1);
      const at::Tensor square = widened(squares[i]).mul(beta2).add(grad.mul(1 - beta2).mul(grad));
      const at::Tensor most = amsgrad ? at::maximum(widened(largest[i]), square) : square;
      const at::Tensor root = most.sqrt().div(correction2.sqrt()).add(eps);
      const at::Tensor size = times(correction1.reciprocal(), lr_).neg();
      write(params_[i], param.add(average.mul(size).div(root)));
      write(averages[i], average);
      write(squares[i], square);
      if (amsgrad) write(largest[i], most);
    }
  }

  void sgd() {
    const double momentum = number("momentum"), dampening = number("dampening");
    const bool nesterov = flag("nesterov"), is_first = flag("is_first_step");
    for (const at::Tensor& t : params_)
      if (t.is_cpu() && at::isReducedFloatingType(t.scalar_type()))
        refuse("computes something else than its formula for half types on a CPU");
    if (momentum == 0 && !named("momentum_buffer_list").toTensorVector().empty())
      refuse("gets buffers for no momentum");
    const Tensors buffers = momentum != 0 ? tensors("momentum_buffer_list") : Tensors();
    for (size_t i = 0; i < params_.size(); ++i) {
      at::Tensor change = gradient(i, true);
      if (momentum != 0) {
        const at::Tensor buffer = is_first ? change : widened(buffers[i]).mul(momentum).add(change.mul(1 - dampening));
        write(buffers[i], buffer);
        change = nesterov ? change.add(buffer.mul(momentum)) : buffer;
      }
      write(params_[i], widened(params_[i]).sub(times(change, lr_)));
    }
  }

  void adagrad() {
    const Tensors sums = tensors("state_sums"), steps = counters();
    const double lr_decay = number("lr_decay"), eps = number("eps");
    for (size_t i = 0; i < params_.size(); ++i) {
      const at::Tensor size = times(steps[i].sub(1).mul(lr_decay).add(1).reciprocal(), lr_);
      const at::Tensor grad = gradient(i, true);
      const at::Tensor sum = widened(sums[i]).add(grad.mul(grad));
      write(params_[i], widened(params_[i]).sub(grad.mul(size).div(sum.sqrt().add(eps))));
      write(sums[i], sum);
    }
  }

 private:
  c10::IValue named(const char* name) const {
    const auto i = op_.handle.schema().argumentIndexWithName(name);
    if (!i) refuse("has another signature in this version of torch");
    return argument(op_, stack_, static_cast<size_t>(*i));
  }
  double number(const char* name) const { return named(name).toDouble(); }
  bool flag(const char* name) const { return named(name).toBool(); }

  [[noreturn]] void refuse(const char* why) const { VESTA_UNSUPPORTED("{} {}", op_.handle.schema().name(), why); }

  at::Tensor fake(const at::Tensor& t) const {
    if (traced(t)) return t;
    r_.alias_of(t);
    return r_.fake_of(t);
  }

  // The same elements lie at the same places of two memories of one type.
  bool are_alike(const at::Tensor& a, const at::Tensor& b) const {
    const graph::TensorType x = r_.type_of(a), y = r_.type_of(b);
    if (x.dtype != y.dtype || x.device != y.device || x.sizes != y.sizes) return false;
    for (size_t d = 0; d < x.dim(); ++d)
      if (x.sizes[d] != Expr(1) && x.strides[d] != y.strides[d]) return false;
    return true;
  }

  // A tensor for each parameter, of its type. ATen's kernels go through their memory side by side.
  Tensors tensors(const char* name) const {
    Tensors out;
    for (const at::Tensor& t : named(name).toTensorVector()) out.push_back(fake(t));
    if (out.size() != params_.size()) refuse("gets lists of different lengths");
    for (size_t i = 0; i < out.size(); ++i) {
      if (!are_alike(params_[i], out[i]))
        refuse("gets a gradient or a state of another type or layout than its parameter");
      if (!params_[i].is_floating_point() || !graph::is_dense(r_.guards(), r_.type_of(params_[i])))
        refuse("gets a parameter that is not dense, or not of a floating-point type");
    }
    return out;
  }

  at::Tensor number_of(const at::Tensor& t) const {
    if (t.dim() != 0 || !t.is_floating_point()) refuse("gets a tensor for a number that is no 0-d tensor of a float");
    return fake(t);
  }

  Tensors counters() const {
    Tensors out;
    for (const at::Tensor& t : named("state_steps").toTensorVector()) out.push_back(number_of(t).to(at::kDouble));
    if (out.size() != params_.size()) refuse("gets lists of different lengths");
    return out;
  }

  // The direction of the update. The gradient itself is divided by its scale as well.
  at::Tensor gradient(size_t i, bool adds_decay) const {
    at::Tensor grad = widened(grads_[i]);
    if (scale_.defined()) {
      grad = grad.div(scale_);
      write(grads_[i], grad);
    }
    if (flag("maximize")) grad = grad.neg();
    return adds_decay && weight_decay_ != 0 ? grad.add(widened(params_[i]).mul(weight_decay_)) : grad;
  }

  at::Tensor decayed(const at::Tensor& param) const {
    if (const double* lr = std::get_if<double>(&lr_)) return param.mul(1 - *lr * weight_decay_);
    return param.mul(at::rsub(std::get<at::Tensor>(lr_).mul(weight_decay_), 1));
  }

  // A step whose found_inf is 1 leaves all tensors as they are.
  void write(const at::Tensor& target, const at::Tensor& value) const {
    at::Tensor rounded = value.to(target.scalar_type());
    if (skips_.defined()) rounded = at::where(skips_, target, rounded);
    write_tensor(r_, target, r_.value_of(rounded));
  }

  Recorder& r_;
  const Operator& op_;
  const Stack& stack_;
  Tensors params_, grads_;
  at::Tensor scale_, skips_;  // may be undefined
  double weight_decay_;
  Rate lr_;
};

void adam(Recorder& r, const Operator& op, Stack& stack) {
  FusedStep(r, op, stack).adam(/*decoupled=*/false);
  torch::jit::drop(stack, op.arg_count);
}
void adamw(Recorder& r, const Operator& op, Stack& stack) {
  FusedStep(r, op, stack).adam(/*decoupled=*/true);
  torch::jit::drop(stack, op.arg_count);
}
void sgd(Recorder& r, const Operator& op, Stack& stack) {
  FusedStep(r, op, stack).sgd();
  torch::jit::drop(stack, op.arg_count);
}
void adagrad(Recorder& r, const Operator& op, Stack& stack) {
  FusedStep(r, op, stack).adagrad();
  torch::jit::drop(stack, op.arg_count);
}

constexpr OperatorRow kRows[] = {
    {"aten::_fused_adam_", adam},       {"aten::_fused_adam_.tensor_lr", adam},
    {"aten::_fused_adamw_", adamw},     {"aten::_fused_adamw_.tensor_lr", adamw},
    {"aten::_fused_sgd_", sgd},         {"aten::_fused_sgd_.tensor_lr", sgd},
    {"aten::_fused_adagrad_", adagrad}, {"aten::_fused_adagrad_.tensor_lr", adagrad},
};

}  // namespace

std::span<const OperatorRow> optimizer_rows() { return kRows; }

}  // namespace vesta::trace
