#include "capture/python/segments/run_variant.h"

#include <algorithm>
#include <memory>

#include "base/events.h"
#include "capture/python/epilogue/reconstruct.h"
#include "capture/python/epilogue/writes.h"
#include "capture/python/guards/guard_text.h"
#include "capture/python/tensors/compile.h"
#include "capture/python/tensors/profiled.h"
#include "capture/python/tensors/run.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/wrapper/module_global.h"
#include "pipeline/strategy.h"

namespace vesta::capture {
namespace {

// The tensors of the graph, of which `numbers` owns some. False: Python has an error.
bool find_tensors(const Variant& v, Registers& r, std::vector<Object>& numbers) {
  const auto find = [&](size_t i) {
    const Variant::Input& in = v.inputs[i];
    if (in.is_number) numbers.push_back(Object::take(number_tensor(r[in.source])));
    r.tensors[i] = in.is_number ? numbers.back().get() : in.source >= 0 ? r[in.source] : in.constant;
    return r.tensors[i] || !in.is_number;
  };
  if (r.of_cache == 0 || r.tensors_of != r.of_cache) {
    r.tensors_of = 0;
    r.tensors.resize(v.inputs.size());
    r.other_tensors.clear();
    for (size_t i = 0; i < v.inputs.size(); ++i) {
      const Variant::Input& in = v.inputs[i];
      if (in.is_number || (in.source >= 0 && !v.guards.is_steady(in.source)))
        r.other_tensors.push_back(i);
      else
        find(i);
    }
    r.tensors_of = r.of_cache;
  }
  return std::ranges::all_of(r.other_tensors, find);
}

// PyTorch's profiler is on. Its variable in Python is cheaper to read than its callbacks are.
bool is_profiled() {
  static ModuleGlobal on("torch.autograd.profiler", "_is_profiler_enabled");
  return on.get() == Py_True;
}

// Reports a run to the events and to the profiler, if they are on.
struct Observed {
  explicit Observed(const Variant& v) : span(events::Type::Run, v.name) {
    if (is_profiled()) range = profiled_range(v.name);
    if (events::Event* const e = span.event()) e->ids.segment = v.segment, e->ids.variant = v.id;
  }
  events::Span span;
  std::shared_ptr<const void> range;
};

std::unique_ptr<Observed> observe(const Variant& v) { return std::make_unique<Observed>(v); }

// Takes the result of a compile in the background. False: there is none (ready.failed).
bool take_compiled(Variant& v, Ready& ready) {
  try {
    if (v.take_compiled()) return true;
    ready.failed = "the compile goes on in the background";
    ready.pending = true;
  } catch (const std::exception& e) {
    ready.failed = e.what();
    ready.not_compiled = true;
    ready.not_worth_it = dynamic_cast<const pipeline::NotWorthIt*>(&e) != nullptr;
  }
  return false;
}

// Vesta refuses to run the calls into ATen: calls run eager until the code is there.
void give_early_up(Variant& v, Ready& ready) {
  v.graph.early.reset();
  ready.outputs.clear();
  ready.failed = "the compile goes on in the background";
  ready.pending = true;
}

}  // namespace

bool run_variant(Variant& v, Frame* f, Ready& ready, CaptureDifference* why) {
  const auto differs = [why](const char* guard) {
    if (why) why->guard = guard;
    return false;
  };
  ready.early = false;
  if (!v.watched.alive()) return differs("an object that it was compiled for does not exist any more");
  const GuardProgram::Lease lease(v.guards);
  Registers& registers = *lease;
  if (const int failed = v.guards.check(f, registers); failed != GuardProgram::kHolds) {
    if (!why) {
      if (failed >= 0) ++v.failures[failed];
      return false;
    }
    *why = difference(v.guards, failed, registers);
    if (failed >= 0)
      if (const Guard& g = v.guards.guards()[static_cast<size_t>(failed)]; g.asked_in)
        why->where = user_line(g.asked_in, g.position);
    return false;
  }
  std::shared_ptr<CompiledGraph> early;
  if (v.graph.pending && ready.checked_at) wait_for_compile(v.graph, *ready.checked_at);
  if (v.graph.pending && !take_compiled(v, ready)) {
    if (ready.not_compiled) return false;
    if (!ready.checked_at && !runs_early(v)) return false;
    ready.failed.clear();
    if (ready.checked_at) return true;  // what its inputs must be is not known yet
    early = v.graph.early;
  }
  if (ready.checked_at) wait_for_backward(v.graph, *ready.checked_at);
  ready.pending = ready.early = early != nullptr;
  const CompiledGraph& graph = early ? *early : v.graph;
  auto reg = [&](int source) { return registers[source]; };
  std::vector<int64_t>& integers = registers.integers;
  std::vector<Object> numbers;
  integers.clear();
  if (!find_tensors(v, registers, numbers)) return PyErr_Clear(), differs("an integer is very large");
  for (const int source : v.integers) {
    int overflow = 0;
    integers.push_back(PyLong_AsLongLongAndOverflow(reg(source), &overflow));
    constexpr int64_t kMost = int64_t{1} << 40;  // what is computed from it should not overflow
    if (overflow || integers.back() > kMost || integers.back() < -kMost) return differs("an integer is very large");
  }
  if (ready.checked_at) {
    if (!v.graph.executable) return true;
    if (!accepts(v.graph, v.require_grad, registers.tensors, integers, why ? &why->guard : nullptr)) return false;
    pack_weights(v.graph, registers.tensors, integers);
    return true;
  }
  // Other threads run during the graph, and may drop what the epilogue needs.
  ready.held.clear();
  for (const int source : v.epilogue.needed) ready.held.push_back(Object::share(reg(source)));
  for (PyObject* x : v.epilogue.watched) ready.held.push_back(Object::share(x));
  if (!v.warnings.empty() && may_become_errors()) return ready.failed = "a warning may be an error", false;
  ready.warnings.clear();
  if (!graph.executable) return true;
  std::unique_ptr<Observed> observed;
  if (events::is_on() || is_profiled()) [[unlikely]]
    observed = observe(v);
  const WarningsKept kept(ready.warnings);
  const GraphRun run = run_graph(graph, v.require_grad, registers.tensors, integers, ready.outputs, ready.failed,
                                 why ? &why->guard : nullptr);
  if (observed && run != GraphRun::Ran) observed->span.drop();
  if (early && run == GraphRun::Refused) return give_early_up(v, ready), false;
  ready.pending |= run == GraphRun::NotPacked;
  ready.refused = run == GraphRun::Refused;
  return run == GraphRun::Ran;
}

bool leave_segment(Frame* f, const Ready& ready, PyObject** result) {
  const Variant& v = *ready.variant;
  const Epilogue& x = v.epilogue;
  Reconstructor rebuild(x, ready.held, ready.outputs);
  // Everything is made before anything is written.
  auto make = [&](int reconstruction) {
    PyObject* o = rebuild.make(reconstruction);
    return o || !PyErr_Occurred();
  };
  // In the order of the builder: an object that holds itself is made from the same end.
  if (x.kind == Epilogue::Kind::Return) {
    if (!make(x.result)) return false;
  } else {
    for (const auto& [slot, reconstruction] : x.locals)
      if (!make(reconstruction)) return false;
    for (const int reconstruction : x.stack)
      if (!make(reconstruction)) return false;
  }
  for (const SideEffect& e : x.effects) {
    for (const int part : {e.target, e.key, e.value})
      if (part >= 0 && !make(part)) return false;
    for (const int part : e.parts)
      if (!make(part)) return false;
  }
  if (!(v.entry == v.leave)) set_torch_state(v.entry, v.leave);
  for (const SideEffect& e : x.effects)
    if (!replay(e, rebuild)) return false;
  if (x.kind == Epilogue::Kind::Return) {
    *result = Py_NewRef(rebuild.make(x.result));
    return true;
  }
  std::vector<PyObject*> old;
  for (const auto& [i, reconstruction] : x.locals) {
    old.push_back(slot(f, i));
    slot(f, i) = Py_XNewRef(rebuild.make(reconstruction));
  }
  while (depth_of(f) > 0) old.push_back(pop(f));
  for (const int reconstruction : x.stack) push(f, Py_XNewRef(rebuild.make(reconstruction)));
  for (PyObject* o : old) Py_XDECREF(o);
  return true;
}

}  // namespace vesta::capture
