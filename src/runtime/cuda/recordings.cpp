#include "runtime/cuda/recordings.h"

#include <ATen/EmptyTensor.h>
#include <fmt/format.h>

#include <algorithm>

#include "artifact/uses.h"
#include "base/check.h"
#include "base/log.h"
#include "base/stopwatch.h"
#include "interop/torch_types.h"
#include "machine/cuda/driver.h"
#include "runtime/cuda/torch_cuda.h"
#include "runtime/runner.h"

namespace vesta::runtime {
namespace {

constexpr int kMostAddresses = 4;
// Changes of an input's address before it is copied: a weight that is replaced once is recorded again instead. The
// halves of a training step read what PyTorch's allocator gave them. Its addresses recur some steps after the
// recordings, which allocate, too.
constexpr int kChangesBeforeCopy = 2, kChangesInTraining = 4;
// So many times a recording is made for other addresses of outputs. From then on it makes them in its own memory, and
// each run copies them.
constexpr int kMostMoves = 12;
constexpr size_t kMostKinds = 8;
constexpr size_t kMostThreads = 64;  // threads that a kind remembers
// A recording that holds this much memory which a larger one on its stream has replaced is made again, a few times at
// most: recordings of growing programs would otherwise hold the sum of what each of them needs.
constexpr int64_t kReplaced = int64_t{8} << 20;
constexpr int kMostReplaced = 3;
constexpr int kMostRefusedSteps = 16;  // failed captures that one recording may try

// Every Recordings of the process, and the operators that kept memory between calls. Once such memory exists, no
// capture shows it.
struct Registry {
  std::mutex mutex;
  std::set<Recordings*> all;
  std::set<std::string> keep_memory;
  std::atomic<int64_t> uses{0};
};
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

void make_workspaces(ReplayStream& on) {
  try {
    on.make_workspaces();
  } catch (const c10::OutOfMemoryError&) {  // the call itself finds out what fits
  }
}

// `bytes`: of the memory to work in.
GivenMemory allocate(const std::vector<int>& buffers, const std::array<int64_t, kWorkMemories>& bytes,
                     const Resolved& sizes, c10::Device device) {
  GivenMemory out{buffers, {}, {}};
  out.tensors.reserve(buffers.size());
  for (const int b : buffers) out.tensors.push_back(allocate_directly(sizes.buffers[static_cast<size_t>(b)]));
  for (size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] > 0) out.work[i] = storage_of(bytes[i], device);
  return out;
}

// Whether it is what each run of a recording with this plan allocates, but for the memory of extern calls. `bytes`:
// Recording::given_bytes() of the plan.
bool is_for(const GivenMemory& given, const GraphPlan& plan, const std::array<int64_t, kWorkMemories>& bytes) {
  return given.buffers == plan.given && given.bytes(WorkMemory::Arena) == bytes[0] &&
         given.bytes(WorkMemory::EarlyArena) == bytes[1];
}

std::string operator_of(const artifact::Step& step) {
  const auto* const call = std::get_if<artifact::Extern>(&step);
  return call ? call->op : std::holds_alternative<artifact::Launch>(step) ? "a kernel" : "a region";
}

}  // namespace

Recordings::Recordings(const artifact::Artifact& artifact, const BoundProgram& program,
                       std::span<const std::unique_ptr<Executable>> entries, c10::Device device,
                       const GraphOptions& options)
    : what_{artifact, program, entries, {}},
      device_(device),
      options_(options),
      calls_operators_(calls_operators(artifact)) {
  if (!options.on) refuse("the option cuda_graphs is off");
  std::string why;
  if (!refused_ && !torch_cuda(&why)) refuse(why);
  for (const artifact::Step& s : artifact.steps) {
    const auto* const call = std::get_if<artifact::Extern>(&s);
    if (call && !call->integers.empty()) refuse(call->op + " returns sizes that later steps need");
  }
  const std::lock_guard lock(registry().mutex);
  registry().all.insert(this);
}

Recordings::~Recordings() {
  const std::lock_guard lock(registry().mutex);
  registry().all.erase(this);
}

Recordings::Run::~Run() {
  if (!recording_) return;
  recording_->stream().leave();
}

Recordings::Run Recordings::find(void* stream, Sizes& sizes, const CallInputs& in,
                                 std::span<const at::Tensor> prepacked) {
  if (refused_.load(std::memory_order_relaxed)) return {};
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return {};  // a call of another thread may be recording
  ReplayStream& on = ReplayStream::of(device_, stream);
  if (!on.try_enter()) return {};
  last_use_ = ++registry().uses;
  std::shared_ptr<Recording> found;
  GivenMemory given;
  try {
    if (calls_operators_) make_workspaces(on);
    found = use(kind_of(on, sizes.now().symbols), sizes, in, prepacked, given);
  } catch (const c10::OutOfMemoryError&) {  // the call itself finds out what fits
  } catch (const std::exception& e) {
    refuse(e.what());
  }
  if (!found) {
    on.leave();
    return {};
  }
  return Run(std::move(found), std::move(given));
}

Recordings::Kind& Recordings::kind_of(ReplayStream& stream, const std::vector<int64_t>& symbols) {
  auto it = std::find_if(kinds_.begin(), kinds_.end(),
                         [&](const Kind& k) { return k.stream == &stream && k.symbols == symbols; });
  if (it == kinds_.end()) {
    if (kinds_.size() == kMostKinds) kinds_.pop_back();
    kinds_.emplace_front();
    kinds_.front().stream = &stream;
    kinds_.front().symbols = symbols;
  } else {
    kinds_.splice(kinds_.begin(), kinds_, it);
  }
  return kinds_.front();
}

std::shared_ptr<Recording> Recordings::use(Kind& kind, Sizes& sizes, const CallInputs& in,
                                           std::span<const at::Tensor> prepacked, GivenMemory& given) {
  if (!kind.recordings.empty()) given = allocate(kind.given, kind.given_bytes, sizes.now(), device_);
  for (auto it = kind.recordings.begin(); it != kind.recordings.end(); ++it) {
    if (!(*it)->is_for_this_thread() || !(*it)->fits(in, prepacked, given)) continue;
    if ((*it)->replaced_bytes() >= kReplaced && kind.replaced < kMostReplaced && waits_ == 0) {
      ++kind.replaced;
      kind.recordings.erase(it);
      return make(kind, sizes, in, prepacked, given);
    }
    std::rotate(kind.recordings.begin(), it, it + 1);
    return kind.recordings.front();
  }
  if (kind.ran_on.size() == kMostThreads) kind.ran_on.clear();
  if (kind.ran_on.insert(std::this_thread::get_id()).second) return nullptr;
  if (waits_ > 0 && --waits_ > 0) return nullptr;
  if (std::any_of(kind.recordings.begin(), kind.recordings.end(),
                  [](const auto& r) { return !r->is_for_this_thread(); })) {
    kind.stream->share();
    kind.recordings.clear();
  }
  if (!kind.recordings.empty()) {
    std::set<int> other;
    kind.recordings.front()->fits(in, prepacked, given, &other);
    if (other.empty() && ++kind.moved == kMostMoves) kind.recordings.clear();
    widen(kind, other, in);
  }
  return make(kind, sizes, in, prepacked, given);
}

void Recordings::widen(Kind& kind, const std::set<int>& other, const CallInputs& in) {
  const int most = what_.artifact.outputs_recur ? kChangesInTraining : kChangesBeforeCopy;
  bool widened = false;
  for (int b : other) {
    const int times = ++kind.changes[b];
    if (times >= most && may_copy(b, in)) {
      widened |= kind.copied.insert(what_.artifact.buffers[static_cast<size_t>(b)].input).second;
    } else if (times >= kMostAddresses) {
      widened |= kind.changing.insert(b).second;
    }
  }
  if (widened) kind.recordings.clear();
  if (kind.recordings.size() == kMostAddresses) kind.recordings.pop_back();
}

bool Recordings::may_copy(int buffer, const CallInputs& in) const {
  const artifact::Artifact& a = what_.artifact;
  const artifact::Buffer& b = a.buffers[static_cast<size_t>(buffer)];
  if (b.role != artifact::Role::Input || static_cast<size_t>(b.input) >= in.arguments.size()) return false;
  const at::Tensor& t = in.tensor(static_cast<size_t>(b.input));
  if (t.device() != device_) return false;
  if (std::find(a.mutated.begin(), a.mutated.end(), b.input) != a.mutated.end()) return false;
  if (options_.copied_bytes < 0) return true;
  const size_t bytes = at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize());
  return static_cast<int64_t>(bytes) <= options_.copied_bytes;
}

std::shared_ptr<Recording> Recordings::make(Kind& kind, Sizes& sizes, const CallInputs& in,
                                            std::span<const at::Tensor> prepacked, GivenMemory& given) {
  const RecordedProgram what{what_.artifact, what_.program, what_.entries, prepacked};
  {
    const std::lock_guard lock(registry().mutex);
    for (size_t i = 0; i < what.artifact.steps.size(); ++i) {
      const std::string op = operator_of(what.artifact.steps[i]);
      if (registry().keep_memory.count(op) != 0) refused_steps_.emplace(static_cast<int>(i), op + " keeps memory");
    }
  }
  bool had_room = false;  // recordings of other programs were dropped
  for (int tries = 0;; ++tries) {
    bool is_short = false;
    const Stopwatch watch;
    const GraphFacts facts{refused_steps_, kind.changing, kind.moved < kMostMoves};
    GraphPlan plan =
        plan_graphs(what.artifact, static_cast<int>(what.program.first_copy()), sizes.now(), to_device(device_), facts);
    if (plan.graphs.empty()) {
      // A step that could not be captured may be why too few steps are left.
      const bool also = !refused_steps_.empty() && refused_steps_.begin()->second != plan.why_none;
      refuse(also ? fmt::format("{}; {}", plan.why_none, refused_steps_.begin()->second) : plan.why_none);
      return nullptr;
    }
    const ArenaLayout& arena = sizes.now().arena;
    const std::array<int64_t, kWorkMemories> per_run = Recording::given_bytes(plan, arena);
    if (!make_room(arena.kept_bytes + arena.early_bytes - per_run[0] - per_run[1])) {
      refuse("its memory is more than recordings may hold (the option cuda_graph_memory)");
      return nullptr;
    }
    try {
      if (!is_for(given, plan, per_run)) {
        given = GivenMemory();
        given = allocate(plan.given, per_run, sizes.now(), device_);
      }
      kind.given = plan.given;
      std::shared_ptr<Recording> made = record(what, sizes, in, given, std::move(plan), kind.copied, *kind.stream);
      made->finish(what.program);
      for (size_t i = 0; i < kWorkMemories; ++i) kind.given_bytes[i] = made->given_bytes(static_cast<WorkMemory>(i));
      kind.recordings.insert(kind.recordings.begin(), made);
      ++recorded_;
      next_waits_ = 0;
      record_ms_ += watch.milliseconds();
      log::print(log::Topic::Graph, "recorded {} CUDA graphs of {} nodes in {:.2f} ms", made->graphs(), made->nodes(),
                 watch.milliseconds());
      return made;
    } catch (const StepRefused& refused) {
      const std::string op = operator_of(what.artifact.steps[static_cast<size_t>(refused.step)]);
      log::print(log::Topic::Graph, "step {} runs outside the CUDA graphs: {}: {}", refused.step, op, refused.why);
      refused_steps_[refused.step] = op + ": " + refused.why;
      if (refused.keeps_memory) {
        const std::lock_guard lock(registry().mutex);
        registry().keep_memory.insert(op);
      }
      if (tries + 1 == kMostRefusedSteps) {
        refuse(fmt::format("{} steps cannot be captured; the last: {}: {}", kMostRefusedSteps, op, refused.why));
        return nullptr;
      }
    } catch (const c10::OutOfMemoryError&) {
      is_short = true;
    } catch (const machine::OutOfMemory&) {
      is_short = true;
    }
    if (!is_short) continue;
    kind.stream->trim();
    if (had_room) {
      wait();
      return nullptr;
    }
    had_room = true;
    drop_others(0);
  }
}

void Recordings::wait() {
  constexpr int kFirst = 16, kMost = 1 << 16;
  if (next_waits_ == 0) log::print(log::Topic::Graph, "no CUDA graph for now: memory was short while it was recorded");
  next_waits_ = next_waits_ == 0 ? kFirst : std::min(2 * next_waits_, kMost);
  waits_ = next_waits_;
}

bool Recordings::make_room(int64_t bytes) {
  const int64_t most =
      options_.most_bytes >= 0 ? options_.most_bytes : machine::Driver::get()->memory(device_.index()) / 4;
  if (bytes > most) return false;
  drop_others(most - bytes);
  return RecordedMemory::held() <= most - bytes;
}

void Recordings::drop_others(int64_t bytes) {
  if (RecordedMemory::held() <= bytes) return;
  const std::lock_guard lock(registry().mutex);
  std::vector<Recordings*> others(registry().all.begin(), registry().all.end());
  std::erase(others, this);
  std::sort(others.begin(), others.end(), [](Recordings* a, Recordings* b) { return a->last_use() < b->last_use(); });
  for (Recordings* r : others) {
    if (RecordedMemory::held() <= bytes) return;
    if (r->drop()) ReplayStream::trim_all();
  }
}

void Recordings::drop_all(c10::Device device) {
  // A call inside a capture may be a step of a program that is being recorded.
  if (machine::is_capturing(current_stream(device))) return;
  {
    const std::lock_guard lock(registry().mutex);
    for (Recordings* r : registry().all) r->drop();
  }
  ReplayStream::trim_all();
}

bool Recordings::drop() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  bool any = false;
  for (Kind& k : kinds_) {
    any |= !k.recordings.empty();
    k.recordings.clear();
  }
  return any;
}

void Recordings::refuse(std::string why) {
  if (!why_refused_.empty()) return;
  log::print(log::Topic::Graph, "no CUDA graph: {}", why);
  why_refused_ = std::move(why);
  kinds_.clear();
  refused_ = true;
}

GraphReport Recordings::report() const {
  GraphReport r;
  // The caller may hold Python's lock, which an operator that is being captured may need.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) {
    r.why_none = "another thread is recording it now";
    return r;
  }
  r.why_none = why_refused_;
  if (waits_ > 0)
    r.why_none = fmt::format("memory was short while it was recorded; it is tried again {} calls later", waits_);
  r.recorded = recorded_;
  r.record_ms = record_ms_;
  for (const Kind& k : kinds_) {
    for (const auto& recording : k.recordings) {
      ++r.kept;
      r.graphs += static_cast<int64_t>(recording->graphs());
      r.nodes += static_cast<int64_t>(recording->nodes());
      r.bytes += recording->bytes();
      const GraphPlan& plan = recording->plan();
      // A run in another thread may be capturing the last calls.
      const bool idle = recording->stream().try_enter();
      const LastCalls* const last = idle ? recording->last_calls() : nullptr;
      const bool captured = last && last->graphs() > 0;
      if (captured) {
        r.graphs += static_cast<int64_t>(last->graphs());
        r.nodes += static_cast<int64_t>(last->nodes());
      }
      const bool is_newest = r.kept == 1;  // others may be from before a step was refused
      for (size_t i = 0; is_newest && i < plan.direct.size(); ++i) {
        const bool is_last = static_cast<int>(i) >= plan.last_calls;
        if (plan.direct[i].empty() || (is_last && captured)) continue;
        ++r.direct[is_last && last && !last->why_none().empty() ? last->why_none() : plan.direct[i]];
      }
      if (idle) recording->stream().leave();
    }
  }
  return r;
}

}  // namespace vesta::runtime
