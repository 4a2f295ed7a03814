#include "runtime/executable.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/fault.h"
#include "interop/conj_neg.h"
#include "interop/torch_types.h"
#include "machine/cuda/driver.h"
#include "machine/cuda/retired.h"
#include "runtime/bound_program.h"
#include "runtime/cuda/recordings.h"
#include "runtime/parallel.h"
#include "runtime/prepacked.h"
#include "runtime/random_state.h"
#include "runtime/resolver.h"
#include "runtime/runner.h"

namespace vesta::runtime {

namespace {

// The graph already contains what autograd and autocast did.
struct BelowAutograd {
  at::AutoDispatchBelowADInplaceOrView autograd;
  c10::impl::ExcludeDispatchKeyGuard autocast{c10::autocast_dispatch_keyset};
};

// The elements of `base`'s storage as a vector of another type, as a view of `base`. Complex numbers and their parts
// use the views that autograd follows.
at::Tensor elements_as(const at::Tensor& base, c10::ScalarType dtype) {
  if (base.is_complex() && dtype == c10::toRealValueType(base.scalar_type())) {
    const auto whole = static_cast<int64_t>(base.storage().nbytes() / base.itemsize());
    return at::view_as_real(at::as_strided(base, {whole}, {1}, 0)).flatten();
  }
  if (c10::isComplexType(dtype) && base.scalar_type() == c10::toRealValueType(dtype)) {
    const auto whole = static_cast<int64_t>(base.storage().nbytes() / c10::elementSize(dtype));
    return at::view_as_complex(at::as_strided(base, {whole, 2}, {2, 1}, 0));
  }
  const auto bytes = static_cast<int64_t>(base.storage().nbytes());
  const int64_t unit = std::max(static_cast<int64_t>(base.itemsize()), static_cast<int64_t>(c10::elementSize(dtype)));
  const int64_t whole = bytes / unit * unit;
  return at::as_strided(base, {whole / static_cast<int64_t>(base.itemsize())}, {1}, 0).view(dtype);
}

}  // namespace

struct Executable::Impl {
  Impl(artifact::Artifact a, const GraphOptions& graphs)
      : artifact(std::move(a)),
        check(artifact),
        prepacked_program(artifact, artifact.prepacked, true),
        program(artifact, artifact.steps, false),
        resolver(artifact, {prepacked_program.schemas(), program.schemas()}) {
    draws = program.draws();
    device = to_torch(artifact.device);
    for (const artifact::Artifact& entry : artifact.entries) {
      entries.push_back(std::make_unique<Executable>(entry, graphs));
      draws |= entries.back()->impl_->draws;
    }
    if (device.is_cpu()) return;
    recordings.emplace(artifact, program, entries, device, graphs);
    if (machine::has_retired() && !machine::is_capturing(current_stream(device))) machine::release_retired();
  }

  artifact::Artifact artifact;
  InputCheck check;
  BoundProgram prepacked_program, program;
  Resolver resolver;
  std::vector<std::unique_ptr<Executable>> entries;
  c10::Device device = c10::kCPU;  // of kernels and the arena
  std::optional<Recordings> recordings;
  bool draws = false;  // a step of it or of an entry point may draw from the default generator
  Prepacked prepacked{artifact, prepacked_program};

  // What a graph that the caller captures needs, even after this program is gone.
  std::shared_ptr<const void> kept_for_graph() const {
    auto kernels = std::make_shared<std::vector<std::shared_ptr<const machine::DeviceKernel>>>();
    for (const BoundProgram* p : {&prepacked_program, &program})
      for (const BoundStep& s : p->steps())
        if (s.kernel) kernels->push_back(s.kernel);
    return kernels;
  }

  // The inputs with addresses of memory of their own where kernels write: copy-on-write storage is copied.
  CallInputs with_own_memory(const CallInputs& in, Addresses& read) const {
    bool moved = in.addresses.empty();
    for (const int i : program.written_inputs()) {
      c10::StorageImpl* const storage = in.tensor(static_cast<size_t>(i)).storage().unsafeGetStorageImpl();
      if (!storage) continue;
      const void* const before = storage->_mutable_data_ptr_no_checks().get();
      moved |= storage->mutable_data_ptr().get() != before;
    }
    CallInputs out = in;
    if (moved) {
      read_addresses(in, read);
      out.addresses = {read.data(), read.size()};
    }
    return out;
  }
};

Executable::Executable(artifact::Artifact artifact, const GraphOptions& graphs)
    : impl_(std::make_unique<Impl>(std::move(artifact), graphs)) {}
Executable::~Executable() = default;

bool Executable::accepts(const CallInputs& inputs, std::string* why, Addresses* addresses) const {
  SymbolValues symbols;
  Addresses unwanted;
  if (impl_->check.accepts(inputs, symbols, addresses ? *addresses : unwanted)) return true;
  if (why) *why = impl_->check.first_difference(inputs);
  return false;
}

void Executable::run(const CallInputs& in, std::vector<c10::IValue>& outputs, std::span<at::Tensor> consumed,
                     const Fresh& before_views) const {
  bool wrote = false;
  std::optional<RandomState> before;
  if (impl_->draws) before.emplace(impl_->device);
  const auto abandon = [&] {
    if (wrote) throw FailedAfterWriting(std::current_exception());
    if (before) before->put_back();
  };
  // The memory of recordings may be enough for the caller, which runs eager now.
  const auto free_memory = [&] {
    if (impl_->recordings) Recordings::drop_all(impl_->device);
  };
  try {
    run(in, outputs, consumed, before_views, wrote);
  } catch (const machine::OutOfMemory& e) {
    free_memory();
    abandon();
    C10_THROW_ERROR(OutOfMemoryError, e.what());
  } catch (const c10::OutOfMemoryError&) {
    free_memory();
    abandon();
    throw;
  } catch (...) {
    abandon();
    throw;
  }
}

void Executable::run(const CallInputs& given, std::vector<c10::IValue>& outputs, std::span<at::Tensor> consumed,
                     const Fresh& before_views, bool& wrote) const {
  fault::reached("run");
  Impl& impl = *impl_;
  const artifact::Artifact& a = impl.artifact;
  Addresses read;
  const CallInputs in = impl.with_own_memory(given, read);
  Sizes sizes(impl.resolver, impl.check, in);
  const size_t first = outputs.size();
  outputs.resize(first + a.outputs.size());
  bool views = false;
  {
    BelowAutograd guard;
    const c10::OptionalDeviceGuard on(impl.device.is_cpu() ? std::nullopt : std::optional(impl.device));
    void* const stream = impl.recordings ? current_stream(impl.device) : nullptr;
    const bool capturing = impl.recordings && machine::is_capturing(stream);
    std::shared_ptr<const PrepackedSet> prepacked;
    std::span<const at::Tensor> prepacked_tensors;
    if (!a.prepacked.empty()) {
      prepacked = capturing ? impl.prepacked.captured(in, sizes, impl.device)
                            : impl.prepacked.get(in, sizes, impl.device, stream);
      prepacked_tensors = prepacked->tensors;
    }
    Recordings::Run recorded;
    if (capturing) {
      machine::keep_for_graph(stream, impl.kept_for_graph());
    } else if (impl.recordings) {
      recorded = impl.recordings->find(stream, sizes, in, prepacked_tensors);
    }
    WorkspaceLease workspace;
    Runner runner(a, impl.device, sizes, in, *workspace, wrote, impl.entries);
    runner.begin(impl.program, prepacked_tensors, recorded.recording(), recorded.take_given());
    if (recorded.recording()) recorded.recording()->copy_inputs(in);
    runner.run(impl.program, consumed);
    for (size_t i = 0; i < a.outputs.size(); ++i) {
      const artifact::Output& o = a.outputs[i];
      if (o.kind == artifact::OutputKind::Fresh) {
        outputs[first + i] = runner.take_output(sizes.now().outputs[i]);
      } else {
        if (o.kind == artifact::OutputKind::Integer) outputs[first + i] = o.integer.run(sizes.symbols());
        views = true;
      }
    }
    if (fault::any() && !wrote && std::ranges::all_of(consumed, &at::Tensor::defined)) fault::reached("results");
    if (impl.program.first_copy() < a.steps.size()) runner.copy_back(impl.program);
  }
  if (before_views) before_views(std::span(outputs).subspan(first));
  if (!views) return;
  // Views are made above the guard, so that they share their base's version counter as in eager.
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    const artifact::Output& o = a.outputs[i];
    const Resolved::Output& r = sizes.now().outputs[i];
    c10::IValue& out = outputs[first + i];
    switch (o.kind) {
      case artifact::OutputKind::Fresh: break;
      case artifact::OutputKind::None: out = c10::IValue(); break;
      case artifact::OutputKind::Integer: break;
      case artifact::OutputKind::Input: out = in.tensor(o.alias); break;
      case artifact::OutputKind::InputView:
      case artifact::OutputKind::OutputView: {
        const at::Tensor base = memory_of(
            o.kind == artifact::OutputKind::InputView ? in.tensor(o.alias) : outputs[first + o.alias].toTensor());
        const int64_t start = base.storage_offset() * static_cast<int64_t>(base.itemsize());
        const int64_t own = start / static_cast<int64_t>(c10::elementSize(r.type.dtype));
        const int64_t offset = o.absolute_offset ? r.storage_offset : own + r.storage_offset;
        at::Tensor view = at::as_strided(base.scalar_type() == r.type.dtype ? base : elements_as(base, r.type.dtype),
                                         r.type.sizes, r.type.strides, offset);
        out = with_bits(view, o.conj_neg);
        break;
      }
    }
  }
  while (!a.outputs.empty() && outputs.size() > first && a.outputs[outputs.size() - first - 1].hidden)
    outputs.pop_back();
}

const artifact::Artifact& Executable::artifact() const { return impl_->artifact; }
std::span<const std::unique_ptr<Executable>> Executable::entries() const { return impl_->entries; }

int64_t Executable::times_prepacked() const { return impl_->prepacked.times_computed(); }
void Executable::drop_prepacked() const { impl_->prepacked.drop(); }

void Executable::pack(const CallInputs& in) const {
  if (impl_->artifact.prepacked.empty()) return;
  const c10::OptionalDeviceGuard on(impl_->device.is_cpu() ? std::nullopt : std::optional(impl_->device));
  void* const stream = impl_->recordings ? current_stream(impl_->device) : nullptr;
  if (impl_->recordings && machine::is_capturing(stream)) return;  // a captured run computes them itself
  Sizes sizes(impl_->resolver, impl_->check, in);
  const BelowAutograd guard;
  Addresses addresses;
  read_addresses(in, addresses);
  CallInputs at_once = in;
  at_once.addresses = {addresses.data(), addresses.size()};
  at_once.packs = true;
  impl_->prepacked.get(at_once, sizes, impl_->device, stream);
}

std::function<void(const CancelToken&)> Executable::packing(const std::shared_ptr<const Executable>& program,
                                                            const CallInputs& in) {
  // The program may give a parameter other memory meanwhile. These tensors keep what it has now.
  struct Inputs {
    std::vector<at::Tensor> tensors;
    std::vector<int64_t> integers;
    Prepacked::Draft draft;
  };
  auto inputs = std::make_shared<Inputs>();
  for (size_t i = 0; i < in.tensor_count(); ++i) inputs->tensors.push_back(in.tensor(i).variable_data());
  inputs->integers.assign(in.integers.begin(), in.integers.end());
  inputs->draft = program->impl_->prepacked.draft(in);
  return [program, inputs](const CancelToken& cancel) {
    Impl& impl = *program->impl_;
    const OneThread one;
    const BelowAutograd guard;
    CallInputs same{inputs->tensors, {}, inputs->integers};
    Addresses addresses;
    read_addresses(same, addresses);
    same.addresses = {addresses.data(), addresses.size()};
    Sizes sizes(impl.resolver, impl.check, same);
    impl.prepacked.finish(std::move(inputs->draft), same, sizes, cancel);
  };
}

std::optional<GraphReport> Executable::graphs() const {
  return impl_->recordings ? std::optional(impl_->recordings->report()) : std::nullopt;
}

int64_t Executable::prepacked_bytes() const { return impl_->prepacked.bytes(); }

}  // namespace vesta::runtime
