// Steps of PyTorch's fused optimizers: the arithmetic of ATen's kernels as operators on each tensor, which become one
// kernel again.
#include <ATen/OpMathType.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>
#include <c10/util/ScopeExit.h>

#include <variant>

#include "graph/rules/broadcast.h"
#include "trace/ops/fused_step.h"
#include "trace/ops/rows.h"

namespace vesta::trace {
namespace {

using Tensors = std::vector<at::Tensor>;

// A number of a step, in float64: known to the trace, or a 0-d tensor.
class Number {
 public:
  Number() = default;
  explicit Number(double value) : value_(value) {}
  explicit Number(const at::Tensor& value) : value_(value.to(at::kDouble)) {}

  bool is(double known) const {
    const double* const value = std::get_if<double>(&value_);
    return value && *value == known;
  }
  Number from_one() const {
    return std::visit(
        Cases{[](double v) { return Number(1 - v); }, [](const at::Tensor& v) { return Number(at::rsub(v, 1)); }},
        value_);
  }
  Number times(const Number& other) const {
    return std::visit(Cases{[](double a, double b) { return Number(a * b); },
                            [](double a, const at::Tensor& b) { return Number(b.mul(a)); },
                            [](const at::Tensor& a, const auto& b) { return Number(a.mul(b)); }},
                      value_, other.value_);
  }
  at::Tensor to_the(const at::Tensor& exponent) const {
    return std::visit([&](const auto& v) { return at::pow(v, exponent); }, value_);
  }
  // In the type of x, as ATen's kernels take it.
  at::Tensor times(const at::Tensor& x) const {
    return std::visit(
        Cases{[&](double v) { return x.mul(v); }, [&](const at::Tensor& v) { return x.mul(v.to(x.scalar_type())); }},
        value_);
  }
  at::Tensor added_to(const at::Tensor& x) const {
    return std::visit(
        Cases{[&](double v) { return x.add(v); }, [&](const at::Tensor& v) { return x.add(v.to(x.scalar_type())); }},
        value_);
  }
  at::Tensor between(const at::Tensor& from, const at::Tensor& to) const {
    return std::visit(Cases{[&](double v) { return at::lerp(from, to, v); },
                            [&](const at::Tensor& v) { return at::lerp(from, to, v.to(from.scalar_type())); }},
                      value_);
  }

 private:
  template <class... F>
  struct Cases : F... {
    using F::operator()...;
  };
  std::variant<double, at::Tensor> value_;
};

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
    lr_ = number("lr");
  }

  void adam(bool decoupled) {
    const Tensors averages = tensors("exp_avgs"), squares = tensors("exp_avg_sqs"), steps = counters();
    const bool amsgrad = flag("amsgrad");
    const Tensors largest = amsgrad ? tensors("max_exp_avg_sqs") : Tensors();
    const Number beta1 = number("beta1"), beta2 = number("beta2"), eps = number("eps");
    for (size_t i = 0; i < params_.size(); ++i) {
      const at::Tensor correction1 = at::rsub(beta1.to_the(steps[i]), 1);
      const at::Tensor correction2 = at::rsub(beta2.to_the(steps[i]), 1);
      const at::Tensor grad = gradient(i, !decoupled);
      at::Tensor param = widened(params_[i]);
      if (decoupled && !weight_decay_.is(0)) param = lr_.times(weight_decay_).from_one().times(param);
      const at::Tensor average = beta1.from_one().between(widened(averages[i]), grad);
      const at::Tensor square = beta2.times(widened(squares[i])).add(beta2.from_one().times(grad).mul(grad));
      const at::Tensor most = amsgrad ? at::maximum(widened(largest[i]), square) : square;
      const at::Tensor root = eps.added_to(most.sqrt().div(correction2.sqrt()));
      const at::Tensor size = lr_.times(correction1.reciprocal()).neg();
      write(params_[i], param.add(average.mul(size).div(root)));
      write(averages[i], average);
      write(squares[i], square);
      if (amsgrad) write(largest[i], most);
    }
  }

  void sgd() {
    const Number momentum = number("momentum"), dampening = number("dampening");
    const bool nesterov = flag("nesterov"), is_first = flag("is_first_step");
    for (const at::Tensor& t : params_)
      if (t.is_cpu() && at::isReducedFloatingType(t.scalar_type()))
        refuse("computes something else than its formula for half types on a CPU");
    if (momentum.is(0) && !named("momentum_buffer_list").toTensorVector().empty())
      refuse("gets buffers for no momentum");
    const Tensors buffers = !momentum.is(0) ? tensors("momentum_buffer_list") : Tensors();
    for (size_t i = 0; i < params_.size(); ++i) {
      at::Tensor change = gradient(i, true);
      if (!momentum.is(0)) {
        const at::Tensor buffer =
            is_first ? change : momentum.times(widened(buffers[i])).add(dampening.from_one().times(change));
        write(buffers[i], buffer);
        change = nesterov ? change.add(momentum.times(buffer)) : buffer;
      }
      write(params_[i], widened(params_[i]).sub(lr_.times(change)));
    }
  }

  void adagrad() {
    const Tensors sums = tensors("state_sums"), steps = counters();
    const Number lr_decay = number("lr_decay"), eps = number("eps");
    for (size_t i = 0; i < params_.size(); ++i) {
      const at::Tensor size = lr_.times(lr_decay.times(steps[i].sub(1)).add(1).reciprocal());
      const at::Tensor grad = gradient(i, true);
      const at::Tensor sum = widened(sums[i]).add(grad.mul(grad));
      write(params_[i], widened(params_[i]).sub(grad.mul(size).div(eps.added_to(sum.sqrt()))));
      write(sums[i], sum);
    }
  }

 private:
  c10::IValue named(const char* name) const {
    const auto i = op_.handle.schema().argumentIndexWithName(name);
    if (!i) refuse("has another signature in this version of torch");
    return argument(op_, stack_, static_cast<size_t>(*i));
  }
  Number number(const char* name) const {
    const c10::IValue x = named(name);
    return x.isTensor() ? Number(number_of(x.toTensor())) : Number(x.toDouble());
  }
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
    return adds_decay && !weight_decay_.is(0) ? grad.add(weight_decay_.times(widened(params_[i]))) : grad;
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
  Number weight_decay_, lr_;
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

constexpr OperatorRow kOptimizerRows[] = {
    {"aten::_fused_adam_", adam},       {"aten::_fused_adam_.tensor_lr", adam},
    {"aten::_fused_adamw_", adamw},     {"aten::_fused_adamw_.tensor_lr", adamw},
    {"aten::_fused_sgd_", sgd},         {"aten::_fused_sgd_.tensor_lr", sgd},
    {"aten::_fused_adagrad_", adagrad}, {"aten::_fused_adagrad_.tensor_lr", adagrad},
};

}  // namespace

std::span<const OperatorRow> optimizer_rows() { return kOptimizerRows; }

void run_fused_step(const std::string& name, Stack stack) {
  Recorder* const r = Recorder::current();
  VESTA_CHECK(r && !c10::GradMode::is_enabled(), "a fused step is traced outside of a trace, or in gradient mode");
  const Operator* const op = find_operator(("aten::" + name).c_str(), "");
  VESTA_CHECK(op && op->handler, "{} has no row", name);
  const auto source = c10::make_scope_exit([&, was = r->source] { r->source = was; });
  r->source = op->handle.schema().name();
  std::vector<at::Tensor> written;
  for (size_t i = 0; i < op->arg_count; ++i) {
    const c10::Argument& argument = op->handle.schema().arguments()[i];
    if (argument.alias_info() && argument.alias_info()->isWrite() && stack[i].isTensorList())
      for (const at::Tensor& t : stack[i].toTensorVector()) written.push_back(t);
  }
  op->handler(*r, *op, stack);
  for (const at::Tensor& t : written) {
    r->alias_of(t);
    (traced(t) ? t : r->fake_of(t)).unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace vesta::trace
