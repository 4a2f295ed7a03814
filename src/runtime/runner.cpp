#include "runtime/runner.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/List.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/record_function.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "artifact/uses.h"
#include "base/check.h"
#include "interop/conj_neg.h"
#include "interop/torch_types.h"
#include "runtime/cuda/recording.h"
#include "runtime/cuda/torch_cuda.h"
#include "runtime/device_launch.h"
#include "runtime/executable.h"
#include "runtime/output_pool.h"
#include "runtime/parallel.h"
#include "runtime/profiled_launches.h"

namespace vesta::runtime {

std::atomic<int> ProfiledLaunches::count{0};

namespace {

// The largest arena of a training half that a CPU allocates in each run: the C library maps larger blocks anew each
// time.
constexpr int64_t kMostPerRun = int64_t{32} << 20;

// Whether both have the same layout. Strides of dimensions of one element, and of empty tensors, do not count.
bool same_layout(const at::Tensor& t, const ResolvedTensor& type) {
  if (type.empty) return true;
  const auto strides = t.strides();
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    if (type.sizes[d] != 1 && strides[d] != type.strides[d]) return false;
  }
  return true;
}

// copy_ that also works if elements of `to` share memory (an expanded value): each element is written once.
void copy_values(at::Tensor to, at::Tensor from) {
  for (int64_t d = 0; d < to.dim(); ++d) {
    if (to.size(d) < 2 || to.stride(d) != 0) continue;
    to = to.narrow(d, 0, 1);
    from = from.narrow(d, 0, 1);
  }
  to.copy_(from);
}

}  // namespace

at::Tensor window(const c10::Storage& storage, const ResolvedTensor& type, int64_t offset) {
  at::Tensor t = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::computeDispatchKey(type.dtype, c10::kStrided, type.device)),
      c10::scalarTypeToTypeMeta(type.dtype));
  t.unsafeGetTensorImpl()->set_sizes_and_strides(type.sizes, type.strides, offset);
  return t;
}

at::Tensor allocate_tensor(const ResolvedTensor& type) {
  if (type.device.is_cpu()) {
    return at::Tensor(at::detail::empty_strided_generic(type.sizes, type.strides, &output_allocator(),
                                                        c10::DispatchKeySet(c10::DispatchKey::CPU), type.dtype));
  }
  return at::empty_strided(type.sizes, type.strides, at::TensorOptions().dtype(type.dtype).device(type.device));
}

at::Tensor allocate_directly(const ResolvedTensor& type) {
  return at::Tensor(at::detail::empty_strided_generic(type.sizes, type.strides, torch_cuda()->allocator(),
                                                      c10::DispatchKeySet(c10::DispatchKey::CUDA), type.dtype));
}

const at::Tensor& Runner::base(int buffer) const {
  const artifact::Buffer& b = artifact_.buffers[buffer];
  return b.role == artifact::Role::Input ? in_.tensor(b.input) : ws_.tensors[buffer];
}

at::Tensor memory_of(const at::Tensor& t) { return with_bits(t, conj_neg_of(*t.unsafeGetTensorImpl())); }

at::Tensor Runner::view(const ResolvedView& v) const {
  if (v.buffer < 0) return {};
  const at::Tensor& from = base(v.buffer);
  if (from.defined()) {
    if (v.whole) return memory_of(from);
    const int64_t item = static_cast<int64_t>(c10::elementSize(v.type.dtype));
    const int64_t start = from.storage_offset() * static_cast<int64_t>(from.itemsize());
    VESTA_CHECK(start % item == 0, "a view of another dtype starts at byte {}", start);
    return window(from.storage(), v.type, start / item + v.offset);
  }
  const int64_t offset = resolved_->arena.offsets[v.buffer];
  VESTA_CHECK(offset >= 0, "buffer {} has no memory", v.buffer);
  const bool early = resolved_->arena.is_early(artifact_.buffers[v.buffer].last_step);
  return window(early ? ws_.early_storage() : ws_.storage(), v.type,
                offset / static_cast<int64_t>(c10::elementSize(v.type.dtype)) + v.offset);
}

at::Tensor Runner::borrow(int buffer) {
  constexpr size_t small = size_t{64} << 10;  // such memory comes from the allocator's own free lists
  const auto bytes = [&](int b) {
    const ResolvedTensor& t = resolved_->buffers[b];
    return at::detail::computeStorageNbytes(t.sizes, t.strides, c10::elementSize(t.dtype));
  };
  const size_t wanted = bytes(buffer);
  if (wanted < small) return allocate_tensor(resolved_->buffers[buffer]);
  for (const c10::Storage& block : passing_)
    if (block.use_count() == 1 && block.nbytes() >= wanted) return window(block, resolved_->buffers[buffer], 0);
  size_t most = 0;
  for (int b : program_->passing()) most = std::max(most, bytes(b));
  passing_.push_back(storage_of(static_cast<int64_t>(most), c10::kCPU));
  return window(passing_.back(), resolved_->buffers[buffer], 0);
}

void Runner::allocate(int buffer) {
  const std::vector<int>& passing = program_->passing();
  const bool passes = std::find(passing.begin(), passing.end(), buffer) != passing.end();
  const ResolvedTensor& type = resolved_->buffers[buffer];
  if (passes)
    ws_.set(buffer, borrow(buffer));
  else if (recording_ && type.device == device_)
    ws_.set(buffer, allocate_directly(type));
  else
    ws_.set(buffer, allocate_tensor(type));
  ws_.pointers[buffer] = ws_.tensors[buffer].mutable_data_ptr();
}

void Runner::make(int buffer) {
  const bool may_exist = recording_ && (recording_->is_own(buffer) || recording_->is_given(buffer));
  if (may_exist && ws_.tensors[buffer].defined()) return;
  if (capturing_ && !recording_->is_own(buffer)) {
    ws_.pointers[buffer] = kElsewhere;
  } else {
    allocate(buffer);
  }
}

void Runner::begin(const BoundProgram& program, std::span<const at::Tensor> prepacked, Recording* recording,
                   GivenMemory given) {
  program_ = &program;
  recording_ = recording;
  profiled_ = ProfiledLaunches::any();
  ws_.take(artifact_.buffers.size());
  if (ws_.launch_args.size() < program.max_launch_args()) ws_.launch_args.resize(program.max_launch_args());
  if (!device_.is_cpu()) {
    machine::prepare_thread(device_.index());
    stream_ = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_).native_handle();
  }
  // Views of empty buffers need a storage, too.
  if (recording_) recording_->lend_memory(ws_, given);
  calls_memory_ = std::move(given.work[static_cast<size_t>(WorkMemory::Calls)]);
  for (size_t i = 0; i < given.buffers.size(); ++i) {
    const int b = given.buffers[i];
    ws_.pointers[b] = const_cast<void*>(given.tensors[i].const_data_ptr());
    ws_.set(b, std::move(given.tensors[i]));
  }
  const Standing& standing = recording_ && recording_->standing() ? *recording_->standing() : program.standing();
  if (!standing.arena.empty()) {
    const ArenaLayout& layout = resolved_->arena;
    // Between the halves of a training step, and on a CPU before its first use, the memory would only raise the peak.
    const bool stays = !artifact_.outputs_recur || layout.kept_bytes > kMostPerRun;
    if (layout.early_end > 0)
      place(standing, true, ws_.early_arena(std::max(layout.early_bytes, kArenaAlignment), device_));
    if (stays || !device_.is_cpu()) {
      place(standing, false, ws_.arena(std::max(layout.kept_bytes, kArenaAlignment), device_, stays));
    } else {
      late_arena_ = resolved_->kept_begin;
    }
  }
  // Memory that kernels only read stays shared with the original of a lazy copy.
  for (const auto& [b, input] : standing.inputs) ws_.pointers[b] = memory_at(in_, static_cast<size_t>(input));
  if (recording_ && recording_->standing()) recording_->find_moved(in_, ws_.pointers);
  if (prepacked.empty()) return;
  for (int b : standing.prepacked) {
    ws_.set(b, prepacked[b]);
    ws_.pointers[b] = prepacked[b].has_storage() ? const_cast<void*>(prepacked[b].const_data_ptr()) : nullptr;
  }
}

void Runner::place(const Standing& standing, bool early, char* block) {
  const ArenaLayout& layout = resolved_->arena;
  for (int b : standing.arena)
    if (layout.is_early(artifact_.buffers[b].last_step) == early) ws_.pointers[b] = block + layout.offsets[b];
}

void Runner::place_late_arena() {
  const int64_t bytes = std::max(resolved_->arena.kept_bytes, kArenaAlignment);
  place(program_->standing(), false, ws_.arena(bytes, device_, /*kept=*/false));
}

const int64_t* Runner::sizes_of(const artifact::Launch& launch, const ResolvedLaunch& l) {
  if (l.of_run.empty()) return l.sizes.data();
  ws_.launch_sizes.assign(l.sizes.begin(), l.sizes.end());
  for (const int i : l.of_run) ws_.launch_sizes[i] = launch.sizes[i].run(sizes_.symbols());
  return ws_.launch_sizes.data();
}

void Runner::launch(const BoundStep& step, const ResolvedLaunch& l) {
  if (l.items == 0) return;
  void** args = ws_.launch_args.data();
  const artifact::Launch& launch = *step.launch;
  for (size_t i = 0; i < launch.buffers.size(); ++i) {
    args[i] = static_cast<char*>(ws_.pointers[launch.buffers[i]]) + l.offsets[i];
  }
  if (step.kernel) {
    for (size_t i = 0; i < launch.buffers.size(); ++i)
      args[i] = argument_for(artifact_.buffers[launch.buffers[i]], args[i]);
    return launch_on_device(step, l, args);
  }
  const int64_t* const sizes = sizes_of(launch, l);
  if (l.grain) {
    run_parallel(step.entry, args, sizes, l.scratch, l.items, l.grain);
  } else {
    step.entry(args, sizes, l.scratch ? thread_scratch(l.scratch) : nullptr, 0, l.items);
  }
}

void Runner::launch_profiled(const BoundStep& step, const ResolvedLaunch& l) {
  at::RecordFunction range(at::RecordScope::FUNCTION);
  range.before(step.launch->name);
  launch(step, l);
}

void Runner::launch_on_device(const BoundStep& step, const ResolvedLaunch& l, void** buffers) {
  DeviceArguments arguments = arguments_of(buffers, step.launch->buffers.size(), l);
  // A recording has such launches where its graph allows them (CaptureStream::start_early).
  const bool is_recorded = made_ != nullptr;
  step.kernel->launch(shape_of(step.launch->grid, l.items), stream_, arguments.data(), !is_recorded);
}

void Runner::store_result(int buffer, at::Tensor result, const std::string& from) {
  const ResolvedTensor& type = resolved_->buffers[buffer];
  if (program_->owned() && !program_->is_for_kernels(buffer) && result.defined() &&
      result.layout() == c10::kMkldnn) {  // a packed weight, which only oneDNN's operators read
    ws_.pointers[buffer] = nullptr;
    ws_.set(buffer, std::move(result));
    return;
  }
  VESTA_CHECK(result.defined() && result.layout() == c10::kStrided, "{} did not return a strided tensor", from);
  if (result.is_conj()) result = result.resolve_conj();
  if (result.is_neg()) result = result.resolve_neg();
  VESTA_CHECK(result.device() == type.device, "{} returned a tensor on {}, the graph says {}", from,
              result.device().str(), type.device.str());
  VESTA_CHECK(result.scalar_type() == type.dtype && result.sizes() == c10::IntArrayRef(type.sizes),
              "{} returned {}[{}], the graph says {}[{}]", from, c10::toString(result.scalar_type()),
              fmt::join(result.sizes(), ", "), c10::toString(type.dtype), fmt::join(type.sizes, ", "));
  const bool in_arena = ws_.owns(result.storage().data());
  if (!program_->owned() && artifact_.buffers[buffer].role == artifact::Role::Arena) {
    copy_values(view({.buffer = buffer, .type = type}), result);
    return;
  }
  if (ws_.tensors[buffer].defined()) {  // other steps write or wrote here, or the memory is given
    const at::Tensor& to = ws_.tensors[buffer];
    if (result.const_data_ptr() == to.const_data_ptr() && same_layout(result, type)) return;
    if (made_ && *made_ && same_layout(result, type)) (*made_)(buffer, result);
    copy_values(ws_.tensors[buffer], result);
    return;
  }
  // Kernels of a GPU rely on the alignment of its allocator.
  const bool misaligned =
      !type.device.is_cpu() && reinterpret_cast<uintptr_t>(result.const_data_ptr()) % kDeviceAlignment != 0;
  if (in_arena || misaligned || !same_layout(result, type)) {
    at::Tensor fresh = allocate_tensor(type);
    copy_values(fresh, result);
    result = std::move(fresh);
  } else if (result.strides() != c10::IntArrayRef(type.strides)) {  // callers also see the strides that reach nothing
    result = result.as_strided(type.sizes, type.strides);
  } else if (result.use_count() > 1) {
    // The Python object of an operator's result holds the tensor for as long as we do, and would keep take_output()
    // from giving the memory away. Another holder of the memory holds the storage, too.
    result = window(result.storage(), type, result.storage_offset());
  }
  ws_.pointers[buffer] = const_cast<void*>(result.const_data_ptr());
  ws_.set(buffer, std::move(result));
}

void Runner::call(const BoundStep& step, const ResolvedExtern& e) {
  std::vector<c10::IValue> stack = std::move(ws_.stack);  // an operator may itself run a compiled function
  stack.assign(e.stack.begin(), e.stack.end());
  for (const ResolvedExtern::Slot& slot : e.slots) {
    c10::IValue& value = stack[slot.argument];
    if (slot.kind == ResolvedExtern::Slot::One) {
      value = view(slot.views[0]);
    } else if (slot.kind == ResolvedExtern::Slot::List) {
      c10::List<at::Tensor> list;
      list.reserve(slot.views.size());
      for (const ResolvedView& v : slot.views) list.push_back(view(v));
      value = std::move(list);
    } else {
      c10::List<std::optional<at::Tensor>> list;
      list.reserve(slot.views.size());
      for (const ResolvedView& v : slot.views) {
        list.push_back(v.buffer < 0 ? std::optional<at::Tensor>() : std::optional<at::Tensor>(view(v)));
      }
      value = std::move(list);
    }
  }
  // In the graph an offset counts from the value's first element, in ATen from the start of its storage.
  if (step.storage_offset >= 0) {
    c10::IValue& offset = stack[step.storage_offset];
    if (offset.isInt()) offset = offset.toInt() + stack[0].toTensor().storage_offset();
  }
  if (step.into) {
    const int b = step.call->results[0];
    const ResolvedTensor& type = resolved_->buffers[b];
    at::Tensor out = view({.buffer = b, .whole = true, .type = type});
    const void* memory = out.const_data_ptr();
    if (step.into(stack, out)) {
      VESTA_CHECK(out.sizes() == c10::IntArrayRef(type.sizes) && out.const_data_ptr() == memory,
                  "{} returned [{}], the graph says [{}]", step.call->op, fmt::join(out.sizes(), ", "),
                  fmt::join(type.sizes, ", "));
      stack.clear();
      ws_.stack = std::move(stack);
      return;
    }
  }
  step.handle->callBoxed(&stack);
  if (!step.call->integers.empty()) [[unlikely]]
    define(*step.call, stack);
  size_t at = 0;
  const std::vector<int>& results = step.call->results;
  auto store = [&](at::Tensor t) {
    VESTA_CHECK(at < results.size(), "{} returned more than the graph's {} tensors", step.call->op, results.size());
    const int b = results[at++];
    if (b >= 0) store_result(b, std::move(t), step.call->op);
  };
  for (c10::IValue& v : stack) {
    if (v.isTensorList()) {
      for (const at::Tensor& t : v.toTensorList()) store(t);
    } else if (v.isTensor()) {
      store(std::move(v).toTensor());
    } else {
      store(at::Tensor());
    }
  }
  VESTA_CHECK(at == results.size(), "{} returned {} tensors, the graph says {}", step.call->op, at, results.size());
  stack.clear();
  ws_.stack = std::move(stack);
}

void Runner::define(const artifact::Extern& call, std::span<const c10::IValue> returned) {
  std::vector<int64_t> symbols(sizes_.symbols().begin(), sizes_.symbols().end());
  size_t at = 0;
  for (const c10::IValue& v : returned) {
    const size_t end = at + (v.isTensorList() ? v.toTensorList().size() : 1);
    for (; at < end && at < call.integers.size(); ++at) {
      if (call.integers[at] < 0) continue;
      VESTA_CHECK(v.isInt(), "{} returned {} as result {}, the graph says an integer", call.op, v.tagKind(), at);
      symbols[static_cast<size_t>(call.integers[at])] = v.toInt();
    }
    at = end;
  }
  VESTA_CHECK(at == call.integers.size(), "{} returned {} results, the graph says {}", call.op, at,
              call.integers.size());
  sizes_.define(symbols);
  resolved_ = &sizes_.now();
  next_ = resolved_->steps.data();
}

void Runner::enter(const artifact::Call& call, const std::vector<ResolvedView>& inputs) {
  const Executable& entry = *entries_[static_cast<size_t>(call.entry)];
  c10::SmallVector<at::Tensor, 8> tensors;
  for (const ResolvedView& v : inputs) tensors.push_back(view(v));
  std::string why;
  CallInputs in{{tensors.data(), tensors.size()}, {}, {}};
  Addresses addresses;
  VESTA_CHECK(entry.accepts(in, &why, &addresses), "a call of entry {}: {}", call.entry, why);
  in.addresses = {addresses.data(), addresses.size()};
  std::vector<c10::IValue> outputs;
  entry.run(in, outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (call.results[i] < 0) continue;
    store_result(call.results[i], std::move(outputs[i]).toTensor(), fmt::format("entry {}", call.entry));
  }
}

void Runner::copy_back(const BoundProgram& program) {
  const size_t count = program.steps().size();
  const auto bump = [](const at::Tensor& to) {
    if (!to.is_inference()) to.unsafeGetTensorImpl()->bump_version();
  };
  if (program.written_inputs().size() == count - program.first_copy()) {  // kernels have written all of them
    if (!program.written_inputs().empty()) wrote_ = true;
    for (const int input : program.written_inputs()) bump(in_.tensor(static_cast<size_t>(input)));
    return;
  }
  c10::SmallVector<at::Tensor, 4> from;
  for (size_t i = program.first_copy(); i < count; ++i) {
    if (program.steps()[i].copied) continue;
    from.emplace_back();
    const ResolvedView& copy = resolved_->steps[i - resolved_->first_step].copy;
    from.back() = view(copy);
    // A copy may read an input that an earlier copy overwrites.
    if (artifact_.buffers[copy.buffer].role == artifact::Role::Input && count - program.first_copy() > 1) {
      from.back() = from.back().clone();
    }
  }
  const at::Tensor* value = from.data();
  for (size_t i = program.first_copy(); i < count; ++i) {
    const BoundStep& step = program.steps()[i];
    const at::Tensor& to = in_.tensor(static_cast<size_t>(step.copy->input));
    wrote_ = true;
    const at::Tensor* const copy = step.copied ? nullptr : value++;
    if (copy && copy->defined()) memory_of(to).copy_(*copy);
    bump(to);
  }
}

void Runner::run_step(int number) {
  const BoundStep& step = program_->steps()[static_cast<size_t>(number)];
  const Resolved::Step& sizes = *next_++;
  if (number == late_arena_) place_late_arena();
  for (int b : step.allocate) make(b);
  if (static_cast<size_t>(number) == program_->first_mutation()) wrote_ = true;
  if (step.launch) {
    profiled_ ? launch_profiled(step, sizes.launch) : launch(step, sizes.launch);
  } else if (step.assertion) {
    TORCH_CHECK(*static_cast<const bool*>(ws_.pointers[step.assertion->flag]), step.assertion->message);
  } else if (step.region) {
    enter(*step.region, sizes.inputs);
  } else {
    call(step, sizes.call);
  }
}

void Runner::run_graph(RecordedGraph& graph, std::span<at::Tensor> consumed) {
  for (int b : graph.allocate) allocate(b);
  if (graph.mutates) wrote_ = true;
  recording_->launch(graph, ws_.pointers);
  next_ += graph.steps.end - graph.steps.begin;
  if (graph.ends_early) ws_.release_early();
  for (int b : graph.release) ws_.tensors[b].reset();
  drop(graph.release_inputs, consumed);
}

void Runner::run_last_calls(int first, int end) {
  for (int i = first; i < end; ++i)
    for (int b : program_->steps()[static_cast<size_t>(i)].allocate) make(b);
  recording_->last_calls()->run(ws_.pointers, [&] {
    for (int i = first; i < end; ++i) call(program_->steps()[static_cast<size_t>(i)], next_[i - first].call);
  });
}

void Runner::leave_step(int number, std::span<at::Tensor> consumed) {
  const BoundStep& step = program_->steps()[static_cast<size_t>(number)];
  if (number + 1 == resolved_->arena.early_end) ws_.release_early();
  if (late_arena_ >= 0 && number + 1 == resolved_->kept_end) ws_.release_arena();
  for (int b : step.release) ws_.tensors[b].reset();
  drop(step.release_inputs, consumed);
}

void Runner::drop(const std::vector<int>& inputs, std::span<at::Tensor> consumed) {
  if (consumed.empty()) return;
  for (int input : inputs) {
    if (static_cast<size_t>(input) < consumed.size()) consumed[input].reset();
  }
}

void Runner::run(const BoundProgram& program, std::span<at::Tensor> consumed) {
  next_ = resolved_->steps.data();
  const int count = static_cast<int>(program.first_copy());
  for (int i = 0; i < count;) {
    if (RecordedGraph* const graph = recording_ ? recording_->graph_at(i) : nullptr) {
      run_graph(*graph, consumed);
      i = graph->steps.end;
    } else if (recording_ && recording_->last_calls() && i == recording_->plan().last_calls) {
      run_last_calls(i, count);
      while (i < count) leave_step(i++, consumed);
    } else {
      run_step(i);
      leave_step(i++, consumed);
    }
  }
  if (recording_) recording_->forget_moved();
  for (int b : program.never_written()) allocate(b);
}

void Runner::run_prepacked(const BoundProgram& program, const std::vector<bool>& wanted) {
  const int count = static_cast<int>(program.steps().size());
  for (int i = 0; i < count; ++i) {
    if (!wanted[static_cast<size_t>(i)]) continue;
    next_ = resolved_->prepacked.data() + i;
    run_step(i);
    leave_step(i, {});
  }
}

void Runner::capture(int first, int end, const std::function<void(int)>& done, const Made& made) {
  capturing_ = true;
  made_ = &made;
  for (int i = first; i < end; ++i) {
    next_ = resolved_->steps.data() + i;
    run_step(i);
    done(i);
    leave_step(i, {});
  }
  capturing_ = false;
  made_ = nullptr;
}

void Runner::pass_over(int first, int end) {
  capturing_ = true;
  for (int i = first; i < end; ++i) {
    const BoundStep& step = program_->steps()[static_cast<size_t>(i)];
    for (int b : step.allocate) make(b);
    artifact::for_each_use(artifact_.steps[static_cast<size_t>(i)], [&](int b, uint8_t access, bool) {
      if (access & artifact::kWrites && !ws_.pointers[b]) ws_.pointers[b] = kElsewhere;
    });
    leave_step(i, {});
  }
  capturing_ = false;
}

at::Tensor Runner::take_output(const Resolved::Output& output) {
  const ResolvedView& v = output.view;
  const artifact::Role role = artifact_.buffers[v.buffer].role;
  const bool ours = role == artifact::Role::Output || role == artifact::Role::Returned;
  at::Tensor t = view(v);
  // A tensor that only this run holds: either it is the one tensor on its storage, or it is a view of such a tensor, as
  // eager's results are. A second output of the same value is a copy.
  if (ours && v.whole && t.use_count() == 2 && t.storage().use_count() == 1) return t;
  if (ours && !v.whole && base(v.buffer).use_count() == 1 && t.storage().use_count() == 2) return t;
  at::Tensor copy = allocate_tensor(v.type);
  if (v.whole && recording_ && recording_->is_own(v.buffer) && !v.type.empty) {
    const size_t bytes = at::detail::computeStorageNbytes(v.type.sizes, v.type.strides, copy.itemsize());
    machine::copy_on_device(copy.mutable_data_ptr(), t.const_data_ptr(), bytes, stream_);
  } else {
    copy_values(copy, t);
  }
  return copy;
}

}  // namespace vesta::runtime
