// Programs of a GPU made by hand, for recorded calls under the fake driver: products by ATen, and one kernel.
#pragma once

#include <ATen/ATen.h>

#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "fake_gpu/driver.h"
#include "machine/cuda/code.h"
#include "runtime_sample.h"

namespace vesta::testing {

constexpr Device kGpu{DeviceType::CUDA, 0};

inline std::shared_ptr<machine::Object> gpu_object(const std::string& name, size_t parameters, gpu::Kernel kernel) {
  gpu::define_kernel(name, parameters, std::move(kernel));
  return std::make_shared<machine::Object>(machine::Object{
      machine::Form::Cuda, name, machine::write_cuda_code(90, true, gpu::code_of(name), std::string_view("x", 2))});
}

// out[i] = 2 * a[i] + b[i]
inline const auto mix_object = gpu_object("mix", 5, [](const uint64_t* v) {
  const auto* const a = reinterpret_cast<const float*>(v[0]);
  const auto* const b = reinterpret_cast<const float*>(v[1]);
  auto* const out = reinterpret_cast<float*>(v[2]);
  for (uint64_t i = 0; i < v[3]; ++i) out[i] = 2 * a[i] + b[i];
});

// out[i] = 2 * a[i] + b, a number of the CPU.
inline const auto mix_number_object = gpu_object("mix_number", 5, [](const uint64_t* v) {
  const auto* const a = reinterpret_cast<const float*>(v[0]);
  auto* const out = reinterpret_cast<float*>(v[2]);
  for (uint64_t i = 0; i < v[3]; ++i) out[i] = 2 * a[i] + std::bit_cast<float>(static_cast<uint32_t>(v[1]));
});

// For square float matrices.
class GpuProgram {
 public:
  explicit GpuProgram(int64_t side) : side_(side) {
    a.is_static = true;
    a.device = kGpu;
  }
  Artifact a;

  int input(bool parameter = false) {
    a.inputs.push_back({type(), parameter, "x"});
    return add(Role::Input, static_cast<int>(a.inputs.size()) - 1);
  }
  int number() {
    artifact::TensorDesc t;
    a.inputs.push_back({t, false, "n"});
    artifact::Buffer b;
    b.role = Role::Input;
    b.type = t;
    b.input = static_cast<int>(a.inputs.size()) - 1;
    b.bytes = constant(0);
    a.buffers.push_back(std::move(b));
    a.arena.offsets.push_back(-1);
    return static_cast<int>(a.buffers.size()) - 1;
  }
  int arena() {
    const int b = add(Role::Arena, -1);
    a.arena.offsets[static_cast<size_t>(b)] = a.arena.kept_bytes;
    a.arena.kept_bytes += (4 * side_ * side_ + 63) / 64 * 64;
    return b;
  }
  int returned() { return add(Role::Returned, -1); }
  int output() { return add(Role::Output, outputs_++); }

  void mix(int x, int y, int out) {
    const int64_t n = side_ * side_;
    const bool is_number = a.buffers[static_cast<size_t>(y)].type.device.type == DeviceType::CPU;
    artifact::Launch l;
    l.object = is_number ? mix_number_object : mix_object;
    l.name = l.object->symbol;
    l.buffers = {x, y, out};
    l.access = {artifact::kReads, artifact::kReads, artifact::kWrites};
    l.offsets = {constant(0), constant(0), constant(0)};
    l.sizes = {constant(n)};
    l.items = constant(n);
    l.scratch = constant(0);
    l.item_cost = constant(10);
    l.grid = {256, 256, 0};
    a.steps.emplace_back(std::move(l));
  }
  void call(const std::string& op, std::vector<int> from, int to, std::vector<artifact::Arg> more = {}) {
    artifact::Extern e;
    e.op = op;
    for (int b : from) e.args.push_back({whole(b)});
    for (artifact::Arg& arg : more) e.args.push_back(std::move(arg));
    e.results = {to};
    a.steps.emplace_back(std::move(e));
  }
  void mm(int x, int y, int out) { call("aten::mm", {x, y}, out); }
  // A kernel writes this input.
  void written(int input_buffer) {
    const int input = a.buffers[static_cast<size_t>(input_buffer)].input;
    a.mutated.push_back(input);
    artifact::CopyBack c;
    c.input = input;
    c.from = whole(input_buffer);
    copies_.push_back(c);
  }
  void show(int buffer) { a.outputs.push_back(fresh(buffer)); }
  Artifact finish() {  // call it last
    for (const artifact::CopyBack& c : copies_) a.steps.emplace_back(c);
    for (artifact::Buffer& b : a.buffers) b.last_step = static_cast<int>(a.steps.size()) - 1;
    return a;
  }
  at::Tensor tensor(float value) const {
    return at::full({side_, side_}, value, at::TensorOptions().dtype(at::kFloat)).to(at::Device(at::kCUDA, 0));
  }

 private:
  artifact::TensorDesc type() const {
    artifact::TensorDesc t = matrix(constant(side_), constant(side_));
    t.device = kGpu;
    return t;
  }
  int add(Role role, int index) { return add_buffer(a, role, type(), index); }
  const int64_t side_;
  std::vector<artifact::CopyBack> copies_;
  int outputs_ = 0;
};

inline at::Tensor on_cpu(const at::Tensor& t) {
  at::Tensor out = at::empty(t.sizes(), at::kFloat);
  std::memcpy(out.mutable_data_ptr(), t.const_data_ptr(), t.nbytes());
  return out;
}

}  // namespace vesta::testing
