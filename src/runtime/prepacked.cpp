#include "runtime/prepacked.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <unordered_set>

#include "base/fault.h"
#include "base/stage_clock.h"
#include "interop/find_operator.h"
#include "machine/cuda/graph.h"
#include "runtime/executable.h"
#include "runtime/runner.h"
#include "runtime/workspace.h"

namespace vesta::runtime {
namespace {

// The weights that any run packs itself, in bytes: it takes about two milliseconds.
constexpr int64_t kPackedAtOnce = 2 << 20;

// The null pointer names the default stream.
void note_stream(const PrepackedSet& set, void* stream) {
  if (set.last_stream.load(std::memory_order_relaxed) == stream) return;
  set.last_stream.store(stream, std::memory_order_relaxed);
  for (const auto& part : set.parts) part->read_on(stream);
}

// Other streams may read the constants as soon as others find them.
void wait_for_stream(c10::Device device) {
  const machine::RelaxedThread relaxed;  // another thread may capture
  const c10::impl::VirtualGuardImpl gpu(device.type());
  gpu.synchronizeStream(gpu.getStream(device));
}

// The bytes of a weight that oneDNN has laid out. It may have padded the channels of each group, so that these are many
// times those of the weight's elements.
int64_t bytes_of_packed(const at::Tensor& t) {
  static const auto nbytes = find_operator("mkldnn::_nbytes").typed<int64_t(const at::Tensor&)>();
  return nbytes.call(t);
}

}  // namespace

const std::vector<artifact::Packing>& Prepacked::packings() {
  std::call_once(read_, [&] { packings_ = artifact::packings_of(artifact_); });
  return packings_;
}

bool Prepacked::current(const PrepackedSet& set, const CallInputs& in) const {
  for (size_t i = 0; i < set.versions.size(); ++i) {
    if (!set.versions[i].current(in.tensor(static_cast<size_t>(artifact_.prepacked_parameters[i])))) return false;
  }
  return true;
}

std::shared_ptr<const PrepackedSet> Prepacked::get(const CallInputs& in, Sizes& sizes, c10::Device device,
                                                   void* stream) {
  std::shared_ptr<const PrepackedSet> set = set_.load();
  if (!set || !current(*set, in)) {
    const std::lock_guard lock(mutex_);
    set = set_.load();
    if (!set || !current(*set, in)) {
      set = make(in, sizes, device, stream);
      set_.store(set);
      ++times_;
    }
  }
  if (!device.is_cpu()) note_stream(*set, stream);
  return set;
}

void Prepacked::add(PrepackedSet& set, const artifact::Packing& packing, std::shared_ptr<const PackedTensors> part) {
  set.take(packing, part->tensors());
  set.parts.push_back(std::move(part));
}

Prepacked::Draft Prepacked::draft(const CallInputs& in) {
  Draft out;
  out.set = std::make_shared<PrepackedSet>();
  PrepackedSet& set = *out.set;
  set.last_stream = &set;  // none
  set.tensors.resize(artifact_.buffers.size());
  // Versions are read first. A parameter that is written meanwhile makes the set out of date, never wrong.
  for (const int i : artifact_.prepacked_parameters) set.versions.emplace_back(in.tensor(static_cast<size_t>(i)));
  for (const artifact::Packing& packing : packings()) {
    std::vector<at::Tensor> parameters;
    for (const int i : packing.parameters) parameters.push_back(in.tensor(static_cast<size_t>(i)));
    if (auto part = packing.name.empty() ? nullptr : find_packed(packing.name, parameters)) {
      add(set, packing, std::move(part));
      continue;
    }
    for (const at::Tensor& t : parameters) out.bytes += t.numel() * static_cast<int64_t>(t.itemsize());
    ParameterVersions versions(parameters.begin(), parameters.end());
    out.missing.push_back({&packing, std::move(parameters), std::move(versions)});
  }
  return out;
}

void Prepacked::keep(PrepackedSet& set, Missing missing, Made made, void* stream) {
  const artifact::Packing& packing = *missing.packing;
  bool shared = !packing.name.empty();
  for (const ParameterVersion& v : missing.versions) shared &= v.is_known();
  auto part =
      std::make_shared<const PackedTensors>(shared ? packing.name : "", std::move(made.tensors), made.bytes, stream);
  add(set, packing, shared ? share_packed(packing.name, std::move(missing.versions), missing.parameters, part) : part);
}

std::shared_ptr<const PrepackedSet> Prepacked::make(const CallInputs& in, Sizes& sizes, c10::Device device,
                                                    void* stream) {
  Draft d = draft(in);
  if (d.missing.empty()) return d.set;
  if (!in.packs && device.is_cpu() && d.bytes > kPackedAtOnce) throw NotPacked(d.bytes);
  std::vector<const artifact::Packing*> to_compute;
  for (const Missing& m : d.missing) to_compute.push_back(m.packing);
  const StageClock clock("pack");
  fault::reached("pack");
  std::vector<Made> made = compute(to_compute, in, sizes, device);
  if (!device.is_cpu()) wait_for_stream(device);
  for (size_t i = 0; i < d.missing.size(); ++i) keep(*d.set, std::move(d.missing[i]), std::move(made[i]), stream);
  return d.set;
}

void Prepacked::finish(Draft draft, const CallInputs& in, Sizes& sizes, const CancelToken& cancel) {
  const StageClock clock("pack");
  for (Missing& m : draft.missing) {
    cancel.check();
    fault::reached("pack");
    std::vector<Made> made = compute({m.packing}, in, sizes, c10::kCPU);
    keep(*draft.set, std::move(m), std::move(made.front()), nullptr);
  }
  const std::lock_guard lock(mutex_);
  set_.store(draft.set);
  ++times_;
}

std::vector<Prepacked::Made> Prepacked::compute(const std::vector<const artifact::Packing*>& packings,
                                                const CallInputs& in, Sizes& sizes, c10::Device device) const {
  std::vector<bool> wanted(artifact_.prepacked.size(), false);
  for (const artifact::Packing* packing : packings)
    for (const int step : packing->steps) wanted[static_cast<size_t>(step)] = true;
  WorkspaceLease workspace;
  bool wrote = false;
  Runner runner(artifact_, device, sizes, in, *workspace, wrote);
  runner.begin(program_, {});
  runner.run_prepacked(program_, wanted);
  std::vector<Made> out;
  std::unordered_set<const c10::StorageImpl*> counted;  // views of a parameter have no bytes of their own
  for (const int i : artifact_.prepacked_parameters)
    if (const at::Tensor& t = in.tensor(static_cast<size_t>(i)); t.has_storage())
      counted.insert(t.storage().unsafeGetStorageImpl());
  for (const artifact::Packing* packing : packings) {
    Made& made = out.emplace_back();
    for (const int b : packing->kept) {
      made.tensors.push_back(workspace->tensors[static_cast<size_t>(b)]);
      const at::Tensor& t = made.tensors.back();
      if (!t.has_storage()) {
        made.bytes += bytes_of_packed(t);
      } else if (counted.insert(t.storage().unsafeGetStorageImpl()).second) {
        made.bytes += static_cast<int64_t>(t.storage().nbytes());
      }
    }
  }
  return out;
}

std::shared_ptr<const PrepackedSet> Prepacked::captured(const CallInputs& in, Sizes& sizes, c10::Device device) {
  auto set = std::make_shared<PrepackedSet>();
  set->tensors.resize(artifact_.buffers.size());
  std::vector<const artifact::Packing*> all;
  for (const artifact::Packing& packing : packings()) all.push_back(&packing);
  const std::vector<Made> made = compute(all, in, sizes, device);
  for (size_t i = 0; i < all.size(); ++i) set->take(*all[i], made[i].tensors);
  return set;
}

int64_t Prepacked::bytes() const {
  int64_t bytes = 0;
  if (const auto set = set_.load())
    for (const auto& part : set->parts) bytes += part->bytes();
  return bytes;
}

}  // namespace vesta::runtime
