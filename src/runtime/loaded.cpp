// A saved program in this process: vesta/load.h.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <set>

#include "artifact/uses.h"
#include "base/check.h"
#include "interop/torch_release.h"
#include "interop/torch_types.h"
#include "machine/cuda/device_target.h"
#include "program/file.h"
#include "program/program.h"
#include "runtime/arguments.h"
#include "runtime/compile_again.h"
#include "runtime/cuda/gpus.h"
#include "runtime/executable.h"
#include "runtime/weights.h"
#include "vesta/load.h"

namespace vesta::runtime {
namespace {

using program::Make;
using Weights = std::vector<at::Tensor>;

// The reason why code for `target` cannot run here. Empty: it can.
std::string why_not_here(const program::Variant& v) {
  if (v.origin.torch != torch_release())
    return fmt::format("it was saved with torch {}, this is torch {}", v.origin.torch, torch_release());
  bool launches = false;
  int shared = 0;  // bytes
  artifact::for_each_launch(v.artifact, [&](const artifact::Launch& l) {
    launches = true;
    shared = std::max(shared, l.grid.shared);
  });
  if (!launches) return {};
  const Device device = v.artifact.device;
  std::string why;
  const Target* const machine =
      device.type == DeviceType::CUDA ? machine::cuda_target(std::max<int>(0, device.index), &why) : &host_target();
  if (!machine) return fmt::format("it was saved for {}: {}", v.origin.target.cpu, why);
  const std::vector<std::string> missing = missing_features(v.origin.target, *machine);
  const bool is_short = device.type == DeviceType::CUDA && shared > 0 && shared > machine->l1_bytes - kOwnShared;
  if (missing.empty() && is_short)
    return fmt::format(
        "it was saved for {}, and its kernels need {} bytes of shared memory per block, but this GPU has {}",
        v.origin.target.cpu, shared + kOwnShared, machine->l1_bytes);
  if (missing.empty()) return {};
  return fmt::format("it was saved for {} and needs features that this {} does not have: {}", v.origin.target.cpu,
                     device.type == DeviceType::CUDA ? "GPU" : "CPU", fmt::join(missing, ", "));
}

}  // namespace

// One variant, ready to run. A member of Program::Impl has this type, so that it has a name outside of this file.
class Runnable {
 public:
  explicit Runnable(program::Variant v) : variant(std::move(v)) {
    if (const std::string why = why_not_here(variant); !why.empty()) {
      std::optional<artifact::Artifact> made = compile_again(variant);
      if (!made)
        throw UserError(why +
                        ". Load it with the library Vesta::vesta or from Python, which compile it again, or save it on "
                        "a machine like this one");
      variant.artifact = std::move(*made);
    }
    const program::Origin& o = variant.origin;
    executable = std::make_unique<const Executable>(variant.artifact,
                                                    GraphOptions{o.cuda_graphs, o.copied_inputs, o.cuda_graph_memory});
  }

  program::Variant variant;
  std::unique_ptr<const Executable> executable;
};

namespace {

// Memory for one call, which its thread keeps for the next call.
struct Frame {
  Bound arguments;
  std::vector<const Value*> places;
  std::vector<at::Tensor> tensors;
  Addresses addresses;
  std::vector<int64_t> integers;
  std::vector<c10::IValue> outputs;
};

constexpr int64_t kMostInteger = int64_t{1} << 40;  // so that sums and products of it do not overflow

// Fills the inputs of the graph. Empty, or the reason why they do not fit.
std::string read_inputs(const program::Program& p, const program::Variant& v, const Weights& weights, Frame& f) {
  f.tensors.clear();
  f.integers.clear();
  const auto found = [&](int place) { return f.places[static_cast<size_t>(place)]; };
  const auto other = [&](int place, const char* wanted) {
    return fmt::format("{} is {}, not {}", program::text(p, v, place),
                       found(place) ? detail::describe(*found(place)) : "not given", wanted);
  };
  for (const program::Input& in : v.inputs) {
    if (in.weight >= 0) {
      f.tensors.push_back(weights[static_cast<size_t>(in.weight)]);
      continue;
    }
    const Value* x = found(in.place);
    if (in.is_number) {
      const auto* real = x ? std::get_if<double>(&x->value) : nullptr;
      const auto* integer = x ? std::get_if<int64_t>(&x->value) : nullptr;
      if (!real && !integer) return other(in.place, "a number");
      f.tensors.push_back(real ? at::scalar_tensor(*real, at::kDouble) : at::scalar_tensor(*integer, at::kLong));
      continue;
    }
    const auto* tensor = x ? std::get_if<at::Tensor>(&x->value) : nullptr;
    if (!tensor) return other(in.place, "a tensor");
    VESTA_USER_CHECK(!at::GradMode::is_enabled() || !tensor->requires_grad(),
                     "{} requires gradients, which a loaded program does not record; call it under torch.no_grad(), "
                     "or with {}.detach()",
                     program::text(p, v, in.place), program::text(p, v, in.place));
    f.tensors.push_back(*tensor);
  }
  for (const int place : v.integers) {
    const auto* integer = found(place) ? std::get_if<int64_t>(&found(place)->value) : nullptr;
    if (!integer || *integer > kMostInteger || *integer < -kMostInteger) return other(place, "an integer of that kind");
    f.integers.push_back(*integer);
  }
  return {};
}

Value make_result(const program::Program& p, const program::Variant& v, const Weights& weights, Frame& f) {
  std::vector<Value> made(v.makes.size());
  for (size_t i = 0; i < v.makes.size(); ++i) {
    const Make& m = v.makes[i];
    // A part may occur in several places, as one object does in eager.
    const auto part = [&](size_t k) { return made[static_cast<size_t>(m.parts[k])]; };
    switch (m.what) {
      case Make::What::Constant: made[i] = to_value(m.value); break;
      case Make::What::Argument: {
        const Value* given = f.places[static_cast<size_t>(m.index)];
        VESTA_USER_CHECK(given, "the result contains {}, which was not given", program::text(p, v, m.index));
        made[i] = *given;
        break;
      }
      case Make::What::Weight: made[i] = {weights[static_cast<size_t>(m.index)]}; break;
      case Make::What::Output: {
        const c10::IValue& out = f.outputs[static_cast<size_t>(m.index)];
        if (out.isTensor()) {
          made[i] = {out.toTensor()};
        } else if (out.isInt()) {
          made[i] = {out.toInt()};
        }
        break;
      }
      case Make::What::List:
      case Make::What::Tuple: {
        std::vector<Value> items;
        for (size_t k = 0; k < m.parts.size(); ++k) items.push_back(part(k));
        made[i] =
            m.what == Make::What::List ? Value{Value::List{std::move(items)}} : Value{Value::Tuple{std::move(items)}};
        break;
      }
      case Make::What::Dict: {
        Value::Dict d;
        for (size_t k = 0; k + 1 < m.parts.size(); k += 2) d.items.emplace_back(part(k), part(k + 1));
        made[i] = {std::move(d)};
        break;
      }
    }
  }
  return std::move(made.back());
}

}  // namespace
}  // namespace vesta::runtime

namespace vesta::detail {

struct Program::Impl {
  std::string path;
  program::Program program;  // without its variants, which are in `variants`
  std::vector<runtime::Runnable> variants;
  std::vector<Value> fallbacks;
  mutable std::mutex mutex;
  std::shared_ptr<const runtime::Weights> weights;  // protected by the mutex; a call keeps the weights it began with
  mutable std::atomic<size_t> last{0};              // the variant of the last call

  std::shared_ptr<const runtime::Weights> current() const {
    const std::lock_guard lock(mutex);
    return weights;
  }
  // Runs the variant. Empty if it ran, otherwise the reason why it does not fit.
  std::string try_variant(const runtime::Runnable& r, const runtime::Weights& now, runtime::Frame& f) const {
    runtime::find_places(r.variant, f.arguments, f.places);
    std::string why = runtime::first_difference(program, r.variant, f.places);
    if (why.empty()) why = runtime::read_inputs(program, r.variant, now, f);
    runtime::CallInputs in{f.tensors, {}, f.integers};
    if (!why.empty() || !r.executable->accepts(in, &why, &f.addresses)) return why;
    in.addresses = {f.addresses.data(), f.addresses.size()};
    f.outputs.clear();
    try {
      r.executable->run(in, f.outputs);
    } catch (const runtime::FailedAfterWriting& e) {
      std::rethrow_exception(e.cause);
    }
    return {};
  }
};

Program::Program(const std::string& path, const LoadOptions& options) : impl_(std::make_unique<Impl>()) {
  Impl& me = *impl_;
  me.path = path;
  program::Opened file = program::open(path);
  if (options.check_weights)
    VESTA_USER_CHECK(program::check_weights(file).empty(), "{}: its weights are damaged", path);
  try {
    runtime::need_gpus(file.program);
  } catch (const UserError& e) {
    throw UserError(fmt::format("{} cannot run here: {}", path, e.what()));
  }
  std::map<std::string, at::Tensor> elsewhere;
  if (!options.weights.empty()) elsewhere = runtime::load_safetensors(options.weights);
  std::set<std::string> given;
  for (const auto* from : {&std::as_const(elsewhere), &options.tensors})
    for (const auto& [name, tensor] : *from) given.insert(name);
  auto weights = std::make_shared<runtime::Weights>(runtime::weights_of(file, given));
  std::vector<std::string> missing;
  for (size_t i = 0; i < weights->size(); ++i) {
    const program::Weight& w = file.program.weights[i];
    if (const auto at = elsewhere.find(w.name); at != elsewhere.end())
      (*weights)[i] = runtime::as_weight(w, at->second.to(to_torch(w.device)));
    if (const auto at = options.tensors.find(w.name); at != options.tensors.end())
      (*weights)[i] = runtime::as_weight(w, at->second);
    if (!(*weights)[i].defined()) missing.push_back(w.name);
  }
  VESTA_USER_CHECK(missing.empty(), "{} was saved without its weights, and {} of them are missing: {}{}", path,
                   missing.size(),
                   fmt::join(missing.begin(), missing.begin() + std::min<ptrdiff_t>(8, std::ssize(missing)), ", "),
                   missing.size() > 8 ? ", ..." : "");
  for (const auto& [name, tensor] : options.tensors)
    VESTA_USER_CHECK(std::any_of(file.program.weights.begin(), file.program.weights.end(),
                                 [&](const program::Weight& w) { return w.name == name; }),
                     "{} has no weight {}", path, name);
  me.weights = std::move(weights);
  try {
    for (program::Variant& v : file.program.variants) me.variants.emplace_back(std::move(v));
  } catch (const Error& e) {
    throw UserError(fmt::format("{} cannot run here: {}", path, e.what()));
  }
  me.program = std::move(file.program);
  me.program.variants.clear();
  me.fallbacks = runtime::fallbacks_of(me.program);
}

Program::~Program() = default;

Value Program::call(std::vector<Value> arguments, Keywords keywords) const {
  const Impl& me = *impl_;
  const auto weights = me.current();
  runtime::Frame frame;
  runtime::bind(me.program, me.fallbacks, arguments, keywords, frame.arguments);
  std::vector<std::string> reasons;
  const size_t first = me.last.load(std::memory_order_relaxed);
  for (size_t k = 0; k < me.variants.size(); ++k) {
    const size_t i = (first + k) % me.variants.size();
    std::string why = me.try_variant(me.variants[i], *weights, frame);
    if (why.empty()) {
      if (i != first) me.last.store(i, std::memory_order_relaxed);
      return runtime::make_result(me.program, me.variants[i].variant, *weights, frame);
    }
    reasons.push_back(fmt::format("\n  variant {}: {}", i, why));
  }
  std::sort(reasons.begin(), reasons.end());
  throw UserError(
      fmt::format("{}: the arguments fit no variant of {}:{}\nSave the program again after a call with such arguments.",
                  me.path, program::signature(me.program), fmt::join(reasons, "")));
}

std::vector<std::pair<std::string, at::Tensor>> Program::weights() const {
  const auto now = impl_->current();
  std::vector<std::pair<std::string, at::Tensor>> out;
  for (size_t i = 0; i < now->size(); ++i) out.emplace_back(impl_->program.weights[i].name, (*now)[i]);
  return out;
}

void Program::bind(const std::map<std::string, at::Tensor>& tensors) {
  auto next = *impl_->current();
  for (const auto& [name, tensor] : tensors) {
    bool found = false;
    for (size_t i = 0; i < next.size(); ++i) {
      if (impl_->program.weights[i].name != name) continue;
      next[i] = runtime::as_weight(impl_->program.weights[i], tensor);
      found = true;
    }
    VESTA_USER_CHECK(found, "{} has no weight {}", impl_->path, name);
  }
  const std::lock_guard lock(impl_->mutex);
  impl_->weights = std::make_shared<const runtime::Weights>(std::move(next));
}

std::string Program::describe() const {
  program::Program whole = impl_->program;
  for (const runtime::Runnable& r : impl_->variants) whole.variants.push_back(r.variant);
  return program::print(whole);
}

}  // namespace vesta::detail
