// In the place of libvesta_cuda and of PyTorch's CUDA build: tensors on "cuda:0" in the process's own memory, of a
// PyTorch for the CPU. Operators compute on the CPU, in the order of the fake driver's streams.
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "fake_gpu/driver.h"
#include "runtime/cuda/torch_cuda.h"

namespace vesta::testing::gpu {
namespace {

const c10::Device kGpu(c10::kCUDA, 0);
thread_local c10::StreamId current = 0;
thread_local std::shared_ptr<runtime::AllocationSource> source;

c10::Stream stream_of(c10::StreamId id) { return c10::Stream(c10::Stream::UNSAFE, kGpu, id); }

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device) const override { return kGpu; }
  c10::Device getDevice() const override { return kGpu; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return stream_of(current); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream_of(0); }
  c10::Stream exchangeStream(c10::Stream s) const override { return stream_of(std::exchange(current, s.id())); }
  void* getStreamNativeHandle(const c10::Stream s) const override { return reinterpret_cast<void*>(s.id()); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard);

// Keeps what is freed, by size.
class Blocks {
 public:
  void* take(size_t bytes) {
    if (is_short()) C10_THROW_ERROR(OutOfMemoryError, "out of memory");
    const std::lock_guard lock(mutex_);
    note_allocated(static_cast<int64_t>(bytes));
    std::vector<void*>& idle = idle_[bytes];
    void* block = nullptr;
    if (idle.empty()) {
      block = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
      sizes_[block] = bytes;
    } else {
      block = idle.back();
      idle.pop_back();
    }
    return block;
  }
  void give_back(void* block) {
    const std::lock_guard lock(mutex_);
    note_allocated(-static_cast<int64_t>(sizes_.at(block)));
    idle_[sizes_.at(block)].push_back(block);
  }

 private:
  std::mutex mutex_;
  std::map<size_t, std::vector<void*>> idle_;
  std::map<void*, size_t> sizes_;
};
Blocks& blocks() {
  static auto* b = new Blocks;
  return *b;
}

struct Served {
  std::shared_ptr<runtime::AllocationSource> from;
  void* block;
};
class Allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, kGpu};
    if (!source) {
      void* const block = blocks().take(bytes);
      return {block, block, [](void* b) { blocks().give_back(b); }, kGpu};
    }
    void* const block = source->take(bytes);
    return {block, new Served{source, block},
            [](void* served) {
              auto* const s = static_cast<Served*>(served);
              s->from->give_back(s->block);
              delete s;
            },
            kGpu};
  }
  void copy_data(void* to, const void* from, size_t n) const override { default_copy_data(to, from, n); }
};
Allocator allocator;

// PyTorch's workspaces of cuBLAS: one for each handle and stream. A thread has a handle of a pool.
class HandleWorkspaces {
 public:
  void make(c10::StreamId stream) {
    static thread_local const Handle own(*this);
    const std::lock_guard lock(mutex_);
    c10::DataPtr& found = made_[{own.number, stream}];
    if (found) return;
    found = allocator.allocate(512);
    note_workspace({own.number, reinterpret_cast<void*>(stream), found.get()});
  }

 private:
  struct Handle {
    explicit Handle(HandleWorkspaces& of) : pool(of), number(of.take()) {}
    ~Handle() { pool.give_back(number); }
    HandleWorkspaces& pool;
    const int number;
  };
  int take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return ++handles_;
    const int number = idle_.back();
    idle_.pop_back();
    return number;
  }
  void give_back(int number) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(number);
  }
  std::mutex mutex_;
  std::map<std::pair<int, c10::StreamId>, c10::DataPtr> made_;
  std::vector<int> idle_;
  int handles_ = 0;
};
HandleWorkspaces& workspaces() {
  static auto* w = new HandleWorkspaces;
  return *w;
}

class FakeTorchCuda final : public runtime::TorchCuda {
 public:
  std::shared_ptr<runtime::AllocationSource> serve(std::shared_ptr<runtime::AllocationSource> s) const override {
    return std::exchange(source, std::move(s));
  }
  c10::Allocator* allocator() const override { return &testing::gpu::allocator; }
  void* allocate(size_t bytes, void*) const override { return blocks().take(bytes); }
  void free(void* block) const override { blocks().give_back(block); }
  void make_workspaces() const override { workspaces().make(current); }
  void clear_error() const override {}
  c10::Stream stream(void* native, c10::DeviceIndex) const override {
    return stream_of(reinterpret_cast<c10::StreamId>(native));
  }
};

// ---- Operators

at::Tensor on_cpu(const at::Tensor& t) {
  return t.device().is_cpu() ? t : at::from_blob(t.data_ptr(), t.sizes(), t.strides(), t.options().device(c10::kCPU));
}

at::Tensor make_empty(c10::IntArrayRef sizes, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>,
                      std::optional<c10::Device>, std::optional<bool>, std::optional<c10::MemoryFormat> format) {
  return at::Tensor(at::detail::empty_generic(sizes, &allocator, c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                              dtype.value_or(c10::kFloat), format));
}
at::Tensor make_empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<c10::ScalarType> dtype,
                              std::optional<c10::Layout>, std::optional<c10::Device>, std::optional<bool>) {
  return at::Tensor(at::detail::empty_strided_generic(
      sizes, strides, &allocator, c10::DispatchKeySet(c10::DispatchKey::CUDA), dtype.value_or(c10::kFloat)));
}

at::Tensor& set_storage(at::Tensor& t, at::Storage storage, c10::SymInt offset, c10::SymIntArrayRef sizes,
                        c10::SymIntArrayRef strides) {
  t.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  t.unsafeGetTensorImpl()->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                                                 offset.expect_int());
  return t;
}

at::Tensor& set_whole_storage(at::Tensor& t, at::Storage storage) {
  const auto count = static_cast<int64_t>(storage.nbytes() / t.itemsize());
  return set_storage(t, std::move(storage), 0, {count}, {1});
}

at::Tensor& copy_into(at::Tensor& to, const at::Tensor& from, bool) {
  enqueue(reinterpret_cast<void*>(current), [to = on_cpu(to), from = on_cpu(from)]() mutable { to.copy_(from); });
  return to;
}
at::Tensor copy_between(const at::Tensor& from, const at::Tensor& to, bool) {
  at::Tensor t = to;
  return copy_into(t, from, false);
}

c10::IValue value_on_cpu(const c10::IValue& v) {
  if (v.isTensor()) return v.toTensor().defined() ? on_cpu(v.toTensor()) : v;
  if (!v.isTensorList()) return v;
  c10::List<at::Tensor> list;
  for (const at::Tensor& t : v.toTensorList()) list.push_back(on_cpu(t));
  return list;
}

// Any other operator: the CPU's, on the same memory. What it writes is one of its arguments, or new.
void compute(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  std::vector<c10::IValue> given(stack->end() - static_cast<ptrdiff_t>(count), stack->end());
  torch::jit::drop(*stack, count);
  std::vector<c10::IValue> arguments;
  for (const c10::IValue& v : given) arguments.push_back(value_on_cpu(v));
  void* const stream = reinterpret_cast<void*>(current);
  const auto& written = op.schema().returns();
  if (!written.empty() && written[0].alias_info()) {
    enqueue(stream, [op, arguments] {
      torch::jit::Stack values = arguments;
      op.callBoxed(&values);
    });
    for (size_t i = 0, next = 0; i < written.size(); ++i) {
      while (!op.schema().arguments()[next].alias_info()) ++next;
      stack->push_back(given[next++]);
    }
    return;
  }
  torch::jit::Stack values = arguments;
  op.callBoxed(&values);  // for the results' types
  std::vector<at::Tensor> made;
  for (const c10::IValue& v : values) {
    if (!v.isTensor()) {
      stack->push_back(v);
      continue;
    }
    const at::Tensor& t = v.toTensor();
    at::Tensor out = make_empty_strided(t.sizes(), t.strides(), t.scalar_type(), {}, {}, {});
    made.push_back(on_cpu(out));
    stack->push_back(std::move(out));
  }
  enqueue(stream, [op, arguments, made]() {
    torch::jit::Stack again = arguments;
    op.callBoxed(&again);
    size_t next = 0;
    for (const c10::IValue& v : again)
      if (v.isTensor()) at::Tensor(made[next++]).copy_(v.toTensor());
  });
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", make_empty);
  m.impl("empty_strided", make_empty_strided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Storage", set_whole_storage);
  m.impl("copy_", copy_into);
  m.impl("_copy_from", copy_between);
}
TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&compute>()); }

}  // namespace
}  // namespace vesta::testing::gpu

extern "C" const vesta::runtime::TorchCuda* vesta_torch_cuda() {
  static const vesta::testing::gpu::FakeTorchCuda fake;
  return &fake;
}
