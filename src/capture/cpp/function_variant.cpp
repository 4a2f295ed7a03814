#include "capture/cpp/function_variant.h"

#include <fmt/format.h>

#include <algorithm>

namespace vesta::capture::functions {

namespace {

runtime::CallInputs inputs_of(const detail::Call& call, const std::vector<at::Tensor>& lifted) {
  return {{call.tensors.data(), call.tensors.size()}, lifted, {call.integers.data(), call.integers.size()}};
}

bool comparable(const FunctionVariant& v, const std::vector<Shape>& shapes, const detail::Call& call) {
  if (v.shapes.size() != shapes.size() || v.integers.size() != call.integers.size()) return false;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (v.shapes[i].dtype != shapes[i].dtype || v.shapes[i].sizes.size() != shapes[i].sizes.size()) return false;
  }
  return true;
}

}  // namespace

bool FunctionVariant::take_compiled() {
  if (!pending->is_done()) return false;
  pipeline::Result made = pending->take();
  executable = std::move(made.executable);
  training = std::move(made.training);
  backward = std::move(made.backward);
  report = std::move(made.report);
  pending.reset();
  return true;
}

bool FunctionVariant::matches(uint64_t call_context, const detail::Call& call) const {
  return context == call_context && key.size() == call.key.size() &&
         std::equal(key.begin(), key.end(), call.key.begin()) && other_integer(call) < 0 &&
         same_gradients(inputs_of(call, lifted)) && executable->accepts(inputs_of(call, lifted));
}

bool FunctionVariant::same_gradients(const runtime::CallInputs& in) const {
  if (!in_grad_mode && !training) return true;
  for (size_t i = 0; i < require_grad.size() && i < in.tensor_count(); ++i)
    if (in.tensor(i).unsafeGetTensorImpl()->requires_grad() != require_grad[i]) return false;
  return true;
}

// A trace keeps integers below 2 as constants even if they are to be symbolic.
int FunctionVariant::other_integer(const detail::Call& call) const {
  if (call.integers.size() != integers.size()) return static_cast<int>(std::min(call.integers.size(), integers.size()));
  for (size_t i = 0; i < integers.size(); ++i) {
    const bool symbolic = dynamic[shapes.size() + i][0] && integers[i] >= 2;
    if (symbolic ? call.integers[i] < 2 : call.integers[i] != integers[i]) return static_cast<int>(i);
  }
  return -1;
}

std::vector<Shape> shapes_of(std::span<const at::Tensor> tensors) {
  std::vector<Shape> out;
  for (const at::Tensor& t : tensors) out.push_back({t.scalar_type(), t.sizes().vec(), t.strides().vec()});
  return out;
}

std::vector<std::vector<bool>> choose_dynamic(const detail::Call& call, std::string_view key, uint64_t context,
                                              const FunctionVariantList& before, bool always) {
  const std::vector<Shape> shapes = shapes_of({call.tensors.data(), call.tensors.size()});
  std::vector<std::vector<bool>> dynamic;
  for (const Shape& s : shapes) dynamic.emplace_back(s.sizes.size(), always);
  for (size_t i = 0; i < call.integers.size(); ++i) dynamic.emplace_back(1, always);
  if (always) return dynamic;
  for (const auto& v : before) {
    if (v->context != context || v->key != key || !comparable(*v, shapes, call)) continue;
    for (size_t i = 0; i < shapes.size(); ++i) {
      for (size_t d = 0; d < shapes[i].sizes.size(); ++d) {
        if (v->shapes[i].sizes[d] != shapes[i].sizes[d] || v->dynamic[i][d]) dynamic[i][d] = true;
      }
    }
    for (size_t i = 0; i < call.integers.size(); ++i) {
      if (v->integers[i] != call.integers[i] || v->dynamic[shapes.size() + i][0]) dynamic[shapes.size() + i][0] = true;
    }
  }
  return dynamic;
}

std::string why_not(const FunctionVariantList& list, std::string_view key, uint64_t context, const detail::Call& call) {
  std::string why = "the arguments have another structure, or a constant changed";
  for (auto it = list.rbegin(); it != list.rend(); ++it) {
    const FunctionVariant& v = **it;
    if (v.key != key) continue;
    if (v.context != context) {
      why = "autocast, grad mode, inference mode, deterministic mode or the default dtype changed";
      continue;
    }
    if (const int i = v.other_integer(call); i >= 0) {
      why = fmt::format("integer argument {} is another constant than {}", i, v.integers.at(static_cast<size_t>(i)));
      continue;
    }
    if (!v.same_gradients(inputs_of(call, v.lifted))) return "whether gradients are recorded for an input changed";
    std::string found;
    if (!v.executable->accepts(inputs_of(call, v.lifted), &found)) return found;
  }
  return why;
}

}  // namespace vesta::capture::functions
