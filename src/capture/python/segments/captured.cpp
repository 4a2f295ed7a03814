#include "capture/python/segments/captured.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>

#include "capture/entry/variant_limit.h"
#include "capture/python/functions/code_origin.h"
#include "capture/python/functions/compilers.h"
#include "capture/python/functions/python_functions.h"
#include "capture/python/package.h"
#include "capture/python/segments/stance.h"
#include "capture/python/tensors/run.h"
#include "runtime/executable.h"
#include "vesta/error.h"

namespace vesta::capture {
namespace {

constexpr int kMostTraces = 24;        // of one segment for one call: each break moves the end
constexpr int kMostPassing = 4;        // variants of one segment that end where the next call may get by
constexpr int kMostIdleSegments = 64;  // in a row without a graph, before CPython goes on

// At a break: Python code that the instruction calls is captured on its own.
class BreakOperations final : public Operations {
 public:
  BreakOperations(Captured& captured, Gain* gain) : captured_(captured), gain_(gain) {}

  PyObject* call(PyObject* callable, PyObject* const* args, size_t flags, PyObject* names) override {
    const Entered e = entered(callable, 0);
    if (!e.code) return Operations::call(callable, args, flags, names);
    const HookScope hook_scope(captured_, e.code, gain_, e.with);
    return Operations::call(callable, args, flags, names);
  }
  PyObject* call_unpacked(PyObject* callable, PyObject* args, PyObject* keywords) override {
    const Entered e = entered(callable, 0);
    if (!e.code) return Operations::call_unpacked(callable, args, keywords);
    const HookScope hook_scope(captured_, e.code, gain_, e.with);
    return Operations::call_unpacked(callable, args, keywords);
  }

 private:
  // The Python code that a call of it comes to, if capturing it may help.
  struct Entered {
    PyCodeObject* code = nullptr;
    HookScope::With with = HookScope::With::Capture;
  };
  static Entered entered(PyObject* f, int depth) {
    if (depth > 4) return {};
    if (PyFunction_Check(f)) {
      if (PyObject* alone = disabled_alone(f)) return {entered(alone, depth + 1).code, HookScope::With::CapturedCalls};
      if (is_disabled(f) || computes_nothing(f)) return {};
      auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(f));
      if (is_standard_library(code)) return {};  // it computes nothing on tensors
      if (enters_compiler(code)) return {};
      return {code};
    }
    if (PyMethod_Check(f)) return entered(PyMethod_GET_FUNCTION(f), depth + 1);
    if (!PyType_Check(f) && is_python_class(Py_TYPE(f))) {
      static PyObject* name = PyUnicode_InternFromString("__call__");
      PyObject* method = _PyType_Lookup(Py_TYPE(f), name);
      if (method && PyFunction_Check(method)) return entered(method, depth + 1);
    }
    return {};
  }

  Captured& captured_;
  Gain* gain_;
};

// Raises the exception that `maker` makes of `arguments`, a tuple (stolen).
void raise_error(PackageObject maker, PyObject* arguments) {
  const Object given = Object::take(arguments);
  const Object make = package_object(maker);
  const Object error = Object::take(make && given ? PyObject_CallObject(make.get(), given.get()) : nullptr);
  if (error) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
}

// What fullgraph=True makes of a break, or of a frame that is not compiled at all.
void refuse(const Reason& why, const UserLine& where) {
  const std::string hint(row(why.id).hint), name(row(why.id).name);
  raise_error(PackageObject::MakeGraphBreak,
              Py_BuildValue("(sssis[]s)", why.text.c_str(), hint.c_str(), where.file.c_str(), where.line,
                            where.function.c_str(), name.c_str()));
}

// What the option `strict` makes of code that Vesta leaves to Python.
void refuse_eager(const Reason& why, const UserLine& where) {
  raise_error(PackageObject::MakeStrictError,
              Py_BuildValue("(ssis)", why.text.c_str(), where.file.c_str(), where.line, where.function.c_str()));
}

class DepthGuard {
 public:
  DepthGuard() : ok_(Py_EnterRecursiveCall(" in a compiled function") == 0) {}
  ~DepthGuard() {
    if (ok_) Py_LeaveRecursiveCall();
  }
  bool ok() const { return ok_; }

 private:
  bool ok_;
};

}  // namespace

void Variant::let_go() {
  std::vector<std::vector<Object>*> holders{&epilogue.kept, &constants};
  guards.add_holders(holders);
  watched = Watched(holders);
  for (const Reconstruction& r : epilogue.reconstructions)
    if (r.object && watched.contains(r.object) &&
        std::find(epilogue.watched.begin(), epilogue.watched.end(), r.object) == epilogue.watched.end())
      epilogue.watched.push_back(r.object);
}

Captured::Captured(Object wrapped, Options options, std::string name, bool fullgraph)
    : wrapped_(std::move(wrapped)), options_(std::move(options)), name_(std::move(name)), fullgraph_(fullgraph) {}

std::shared_ptr<Segment> Captured::segment(PyCodeObject* code, int position) {
  if (last_ && (*last_)->code.get() == reinterpret_cast<PyObject*>(code) && (*last_)->position == position)
    return *last_;
  std::shared_ptr<Segment>& s = segments_[{code, position}];
  if (!s) {
    s = std::make_shared<Segment>();
    s->code = Object::share(reinterpret_cast<PyObject*>(code));
    s->position = position;
  }
  last_ = &s;
  return s;
}

std::vector<const Segment*> Captured::segments() const {
  std::vector<const Segment*> out;
  for (const auto& [place, s] : segments_) out.push_back(s.get());
  return out;
}

PyObject* Captured::run_with_captured_calls(PyThreadState* t, Frame* f, Gain* gain) {
  if (is_observed(t, code_of(f))) return evaluate_by_cpython(t, f, 0);
  BreakOperations operations(*this, gain);
  return evaluate(t, f, 0, operations);
}

PyObject* Captured::enter(PyThreadState* t, Frame* f, Gain* gain) {
  PyCodeObject* code = code_of(f);
  constexpr int kNotOurs = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  std::optional<Break> why;
  if (code->co_flags & kNotOurs)
    why = Break::GeneratorFunction;
  else if (!(code->co_flags & CO_OPTIMIZED))
    why = Break::NotAFunction;
  else if (is_observed(t, code))
    why = Break::Observed;
  else if (checked_code_.get() != reinterpret_cast<PyObject*>(code)) {
    if (is_code_of_compiler(code))
      why = Break::CompilerCode;
    else
      checked_code_ = Object::share(reinterpret_cast<PyObject*>(code));
  }
  if (why) {
    const Reason reason = reason_for(*why);
    if (!is_observed(t, code) && (fullgraph_ || options_.strict)) {
      fullgraph_ ? refuse(reason, user_line(code, 0)) : refuse_eager(reason, user_line(code, 0));
      return throw_at(t, f, 0);
    }
    fall_back(reason.text);
    return evaluate_by_cpython(t, f, 0);
  }
  const DepthGuard depth;
  if (!depth.ok()) return throw_at(t, f, 0);
  return drive(t, f, gain);
}

bool Captured::try_variant(Variant& v, Frame* f, Ready& ready, CaptureDifference& why) {
  if (!v.watched.alive()) {
    why.guard = "an object that it was compiled for is gone";
    return false;
  }
  const GuardProgram::Lease lease(v.guards);
  Registers& registers = *lease;
  if (const int failed = v.guards.check(f, registers); failed != GuardProgram::kHolds) {
    why = v.guards.difference(failed, registers);
    if (failed >= 0) ++v.failures[failed];
    if (failed >= 0)
      if (const Guard& g = v.guards.guards()[static_cast<size_t>(failed)]; g.asked_in)
        why.where = user_line(g.asked_in, g.position);
    return false;
  }
  auto reg = [&](int source) { return registers[source]; };
  std::vector<PyObject*>& tensors = registers.tensors;
  std::vector<int64_t>& integers = registers.integers;
  std::vector<Object> numbers;
  tensors.clear();
  integers.clear();
  for (const Variant::Input& in : v.inputs) {
    if (in.is_number) {
      numbers.push_back(Object::take(number_tensor(reg(in.source))));
      if (!numbers.back()) return PyErr_Clear(), why.guard = "an integer is very large", false;
    }
    tensors.push_back(in.is_number ? numbers.back().get() : in.source >= 0 ? reg(in.source) : in.constant);
  }
  for (const int source : v.integers) {
    int overflow = 0;
    integers.push_back(PyLong_AsLongLongAndOverflow(reg(source), &overflow));
    constexpr int64_t kMost = int64_t{1} << 40;  // what is computed from it should not overflow
    if (overflow || integers.back() > kMost || integers.back() < -kMost) {
      why.guard = "an integer is very large";
      return false;
    }
  }
  // The program may drop what it read; the epilogue reads it again.
  ready.held.clear();
  for (const int source : v.epilogue.needed) ready.held.push_back(Object::share(reg(source)));
  for (PyObject* x : v.epilogue.watched) ready.held.push_back(Object::share(x));
  if (!v.warnings.empty() && may_become_errors()) return ready.failed = "a warning may be an error", false;
  ready.warnings.clear();
  if (!v.graph.executable) return true;
  const WarningsKept kept(ready.warnings);
  switch (run_graph(v.graph, v.require_grad, tensors, integers, ready.outputs, &why.guard)) {
    case GraphRun::Ran: return true;
    case GraphRun::Rejected: return false;
    case GraphRun::Raised: return false;
    case GraphRun::Failed: ready.failed = why.guard; return false;
    case GraphRun::Refused: ready.failed = why.guard, ready.refused = true; return false;
  }
  return false;
}

bool Captured::find(Segment& s, Frame* f, Ready& ready, CaptureDifference& why) {
  const TorchState state = torch_state();
  // A copy: a finished call of another thread may have changed the list when the graph has run.
  for (size_t i = 0; i < s.variants.size(); ++i) {
    const std::shared_ptr<Variant> v = s.variants[i];
    CaptureDifference found;
    if (!(v->entry == state)) {
      if (why.guard.empty()) why = difference(v->entry, state);
      continue;
    }
    if (try_variant(*v, f, ready, found)) {
      ++v->report.hits;
      ready.variant = v;
      // The run let other threads in, which may have moved it.
      const auto at = std::find(s.variants.begin(), s.variants.end(), v);
      if (at != s.variants.begin() && at != s.variants.end()) std::rotate(s.variants.begin(), at, at + 1);
      return true;
    }
    if (PyErr_Occurred() || !ready.failed.empty()) return false;
    if (why.guard.empty()) why = found;
  }
  return false;
}

namespace {
// Those of `from` that are not in `known`, each once for each time.
std::vector<Warning> others(const std::vector<Warning>& from, std::vector<Warning> known) {
  std::vector<Warning> out;
  for (const Warning& w : from) {
    const auto at = std::find(known.begin(), known.end(), w);
    if (at == known.end())
      out.push_back(w);
    else
      known.erase(at);
  }
  return out;
}

void append(std::vector<Warning>& to, std::vector<Warning> more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}
}  // namespace

std::shared_ptr<Variant> Captured::capture(PyThreadState* t, Frame* f, int position, Segment& s, std::string& raises,
                                           std::vector<Warning>& lost) {
  const auto start = std::chrono::steady_clock::now();
  Tracer::Settings settings;
  settings.dynamic = options_.dynamic;
  settings.history = &s.history;
  settings.whole = fullgraph_;
  BreakSite site;
  std::optional<TraceResult> told;  // the trace that said so, while the other is tried
  bool tried_eager = false;
  int guesses = 0;
  for (int attempt = 0; attempt < kMostTraces; ++attempt) {
    TraceResult r = trace_segment(t, f, position, settings);
    if (!r.variant) append(lost, others(r.warnings, lost));
    if (!r.variant && row(r.site.reason.id).then == Then::RunEager) {
      site = r.site;
      break;
    }
    if (!r.variant && row(r.site.reason.id).then == Then::TraceWithoutSymbols && settings.symbols) {
      settings.symbols = false;
      settings.stop_at = -1;
      continue;
    }
    if (!r.variant && r.site.wants_value) continue;
    if (!r.variant && r.site.needs_gradients && !settings.gradients) {
      settings.gradients = true;
      continue;
    }
    // Told that it is being compiled, a program may raise where eager does not, or go ways that end here. What it does
    // in eager is right too.
    if (!r.variant && r.asked_compiling && settings.says_compiling && !tried_eager) {
      tried_eager = true;
      told = std::move(r);
      settings.says_compiling = false;
      continue;
    }
    if (!r.variant && told && !told->raised) {
      r = std::move(*told);
      settings.says_compiling = true;
    }
    told.reset();
    if (!r.variant) {
      site = r.site;
      if (fullgraph_ && r.raised) {
        raises = site.reason.text;
        return nullptr;
      }
      // Twice as far back with each guess: a cause that is far back is reached, too.
      if (r.guessed) r.restart_at = std::max(0, r.restart_at + 1 - (1 << guesses++));
      if (r.restart_at < 0 || (settings.stop_at >= 0 && r.restart_at >= settings.stop_at)) {
        if (settings.symbols && r.restart_at < 0) {
          settings.symbols = false;  // constants may do where symbols do not
          continue;
        }
        break;
      }
      settings.stop_at = r.restart_at;
      continue;
    }
    Variant& v = *r.variant;
    v.warnings = std::move(r.warnings);
    lost = others(lost, v.warnings);
    v.report.end = v.epilogue.kind == Epilogue::Kind::Return ? "return" : "break";
    if (v.epilogue.kind == Epilogue::Kind::Break) {
      CaptureBreak b;
      b.where = site.where.line > 0 ? site.where : user_line(code_of(f), v.epilogue.position);
      b.stack = site.stack;
      int units = 0;
      b.instruction = name_of_opcode(pristine_code(code_of(f), &units)[2 * v.epilogue.position]);
      const BreakRow& r = row(site.reason.id);
      b.name = r.name;
      b.reason = site.reason.text;
      b.hint = r.hint;
      v.report.stop = std::move(b);
      v.stop = site.reason;
      v.passing = r.then == Then::TraceEachTime && ++s.passing <= kMostPassing;
    }
    v.report.stages.push_back({"trace", r.trace_ms});
    v.report.ops = std::move(r.graph.operators);
    if (!r.graph.empty) {
      try {
        v.graph = compile_graph(std::move(r.graph), options_, r.trace_ms, r.integers);
        v.report.compiled = v.graph.report;
      } catch (const std::exception& e) {
        s.skipped = reason_for(Break::CompileFailed, e.what());
        return nullptr;
      }
    }
    v.report.total_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    v.let_go();
    return r.variant;
  }
  s.skipped = site.reason.empty() ? reason_for(Break::TooManyBreaks) : site.reason;
  return nullptr;
}

bool Captured::leave(Frame* f, const Ready& ready, PyObject** result) {
  const Variant& v = *ready.variant;
  const Epilogue& x = v.epilogue;
  Reconstructor rebuild(x, ready.held, ready.outputs);
  // Everything is made before anything is written.
  auto make = [&](int reconstruction) {
    PyObject* o = rebuild.make(reconstruction);
    return o || !PyErr_Occurred();
  };
  // In the order in which they were described: what holds itself is made from the same end.
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
    if (!rebuild.write(e)) return false;
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

PyObject* Captured::drive(PyThreadState* t, Frame* f, Gain* gain) {
  int position = 0, idle = 0;
  bool fresh = true;
  std::vector<Warning> lost;  // given in traces that came to nothing, and not since
  auto go_on_eagerly = [&](const std::string& reason) {
    gain->passing = true;
    fall_back(reason);
    return fresh ? evaluate_by_cpython(t, f, 0) : resume(t, f, position);
  };
  auto leave_to_python = [&](const Reason& why) {
    if (!fullgraph_ && !options_.strict) return go_on_eagerly(why.text);
    fullgraph_ ? refuse(why, user_line(code_of(f), position)) : refuse_eager(why, user_line(code_of(f), position));
    return throw_at(t, f, position);
  };
  // Of a run: what eager raises as well is the program's.
  auto leave_failed = [&](const Ready& ready) {
    return ready.refused && options_.strict ? leave_to_python(reason_for(Break::RunFailed, ready.failed))
                                            : go_on_eagerly(ready.failed);
  };
  for (;;) {
    const std::shared_ptr<Segment> held = segment(code_of(f), position);  // reset() may come while we compile
    Segment& s = *held;
    // A break may have entered one.
    if (is_other_function_mode_active()) return go_on_eagerly("a torch function mode is active");
    if (is_foreign_mode_active()) return go_on_eagerly("a dispatch mode or a functional transform is active");
    if (!s.skipped.empty()) {
      const bool whole = fresh && !gain->entered && !fullgraph_;
      PyObject* found = leave_to_python(s.skipped);
      if (whole) *gain = {.entered = true, .fallback = s.skipped.text};
      return found;
    }
    Ready ready;
    CaptureRecompile why;
    bool passed = false;
    std::vector<std::shared_ptr<Variant>> dropped;  // at the end: what they hold may run Python code
    if (s.passing > 0) {
      const auto first =
          std::stable_partition(s.variants.begin(), s.variants.end(), [](const auto& v) { return !v->passing; });
      dropped.assign(std::make_move_iterator(first), std::make_move_iterator(s.variants.end()));
      s.variants.erase(first, s.variants.end());
      passed = !dropped.empty();
      if (passed && dropped.back()->report.stop)
        why.guard = dropped.back()->report.stop->reason, why.was = "a break", why.now = "it may pass";
      else if (passed)
        why.guard = "a warning", why.was = "given", why.now = "it may be given once only";
    }
    if (!find(s, f, ready, why)) {
      if (PyErr_Occurred()) return throw_at(t, f, position);
      if (!ready.failed.empty()) return leave_failed(ready);
      ++misses_;
      gain->passing = true;
      const Stance set = stance();
      if (set == Stance::FailOnMiss) {
        raise_error(PackageObject::MakeRecompileError,
                    Py_BuildValue("(sssssis)", name_.c_str(), why.guard.c_str(), why.was.c_str(), why.now.c_str(),
                                  why.where.file.c_str(), why.where.line, why.where.function.c_str()));
        return throw_at(t, f, position);
      }
      if (set == Stance::EagerOnMiss) return go_on_eagerly("torch.compiler.set_stance asks for it");
      s.gone += static_cast<int64_t>(std::erase_if(s.variants, [](const auto& v) { return !v->watched.alive(); }));
      const std::string difference = fmt::format("{}: it is {}", why.guard, why.now);
      if (const std::string full =
              why_no_more_variants(options_, static_cast<int64_t>(s.variants.size()) + s.gone, difference);
          !full.empty())
        return leave_to_python(reason_for(Break::TooManyVariants, full));
      const bool again = passed || !s.variants.empty() || s.gone > 0;
      std::string raises;
      std::shared_ptr<Variant> v = capture(t, f, position, s, raises, lost);
      if (!raises.empty()) return go_on_eagerly(raises);  // not for want of a graph: the exception is the program's
      if (!v) return leave_to_python(s.skipped);
      if (fullgraph_ && v->epilogue.kind == Epilogue::Kind::Break && !v->passing) {
        refuse(v->stop, v->report.stop->where);
        return throw_at(t, f, position);
      }
      // What torch warns of once is over with this trace; the next one finds the rest.
      if (std::vector<Warning> fresh_ones = others(v->warnings, s.warned); !fresh_ones.empty()) {
        append(s.warned, std::move(fresh_ones));
        v->passing = v->passing || ++s.passing <= kMostPassing;
      }
      if (again) {
        why.segment = user_line(code_of(f), position);
        why.ms = v->report.total_ms;
        recompiles_.push_back(why);
      }
      s.variants.insert(s.variants.begin(), v);
      CaptureDifference unserved;
      if (!find(s, f, ready, unserved)) {
        if (PyErr_Occurred()) return throw_at(t, f, position);
        if (ready.failed.empty()) {
          const Reason reason = reason_for(Break::TraceDoesNotServe, unserved.guard);
          return options_.strict ? leave_to_python(reason) : go_on_eagerly(reason.text);
        }
        if (ready.refused) s.skipped = reason_for(Break::RunFailed, ready.failed);
        return leave_failed(ready);
      }
    } else {
      ++hits_;
    }
    PyObject* result = nullptr;
    gain->entered = true;
    gain->frames += ready.variant->frames;
    if (ready.variant->graph.executable) {
      gain->kernels += static_cast<int64_t>(ready.variant->graph.report.kernels.size());
      gain->operators += ready.variant->graph.report.ops_extern;
    }
    const Epilogue& x = ready.variant->epilogue;
    const bool over = x.kind == Epilogue::Kind::Return && !lost.empty();
    if (!ready.variant->warnings.empty() || !ready.warnings.empty() || over) {
      place(ready.warnings, f, position);
      const std::vector<Warning>& known = ready.variant->warnings;
      // What an operator warned of in the trace is what its kernel warns of when it runs, and when its half is traced.
      std::erase_if(ready.warnings, [&](const Warning& w) { return std::ranges::find(known, w) != known.end(); });
      if (!give(known) || !give(ready.warnings) || (over && !give(lost))) return throw_at(t, f, position);
    }
    if (!leave(f, ready, &result)) return throw_at(t, f, position);
    if (x.kind == Epilogue::Kind::Return) return finish(t, f, result, x.position);
    idle = ready.variant->graph.executable && ready.variant->graph.report.ops_traced > 0 ? 0 : idle + 1;
    fresh = false;
    position = x.position;
    if (ready.variant->report.stop) ++ready.variant->report.stop->count;
    if (idle > kMostIdleSegments) {
      s.skipped = reason_for(Break::TooManyBreaks);
      return resume(t, f, position);
    }
    // The instruction that breaks, for real: with no reference of ours to what it works on.
    ready = Ready();
    BreakOperations operations(*this, gain);
    link(t, f);
    Evaluation e{t, f, operations, position};
    const Step step_result = step(e);
    unlink(t, f);
    if (step_result == Step::Error) return throw_at(t, f, position);
    if (step_result == Step::Return) return finish(t, f, e.result, position);
    position = e.position;
    if (is_observed(t, code_of(f))) return resume(t, f, position);
  }
}

namespace {
const char* kind_of(Check c) {
  switch (c) {
    case Check::Type: return "type";
    case Check::Is:
    case Check::Same:
    case Check::Different: return "identity";
    case Check::Equals: return "constant";
    case Check::Present:
    case Check::Absent: return "presence";
    case Check::Length: return "length";
    case Check::Keys: return "keys";
    case Check::Members: return "members";
    case Check::Class: return "class";
    case Check::Code: return "code";
    case Check::Tensor:
    case Check::Bare: return "tensor";
  }
  return "";
}
}  // namespace

CaptureReport Captured::report() const {
  CaptureReport r;
  r.name = name_;
  if (PyFunction_Check(wrapped_.get()))
    r.where = user_line(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(wrapped_.get())), 0);
  for (const auto& [key, held] : segments_) {
    const Segment& s = *held;
    CaptureSegment out;
    out.where = user_line(key.first, key.second);
    out.offset = key.second;
    out.skipped = s.skipped.text;
    if (!s.skipped.empty()) out.skipped_name = row(s.skipped.id).name;
    for (const auto& v : s.variants) {
      if (!v->watched.alive()) continue;
      CaptureVariant c = v->report;
      if (c.compiled && v->graph.executable) c.compiled->graphs = v->graph.executable->graphs();
      for (const Guard& g : v->guards.guards()) {
        CaptureGuard guard;
        guard.text = v->guards.text(g);
        guard.kind = kind_of(g.check);
        const auto failed = v->failures.find(static_cast<int>(&g - v->guards.guards().data()));
        guard.failed = failed == v->failures.end() ? 0 : failed->second;
        if (g.asked_in) guard.where = user_line(g.asked_in, g.position);
        c.guards.push_back(std::move(guard));
      }
      out.variants.push_back(std::move(c));
    }
    r.segments.push_back(std::move(out));
  }
  r.recompiles = recompiles_;
  r.fallbacks = eager_calls_.list();
  r.calls = calls;
  r.aside = aside.calls;
  r.hits = hits_;
  r.misses = misses_;
  return r;
}

void Captured::reset() {
  // Running calls hold what they use.
  last_ = nullptr;
  auto old = std::move(segments_);
  segments_.clear();
  aside.forget();
  eager_calls_.clear();
  recompiles_.clear();
  calls = aside.calls = hits_ = misses_ = 0;
}

int Captured::traverse(visitproc visit, void* arg) const {
  Py_VISIT(wrapped_.get());
  for (const auto& [key, held] : segments_) {
    if (held.use_count() > 1) continue;
    const Segment& s = *held;
    Py_VISIT(s.code.get());
    for (const auto& v : s.variants) {
      if (v.use_count() > 1) continue;  // a call is at work with it
      if (const int status = v->guards.traverse(visit, arg)) return status;
      for (const Object& o : v->epilogue.kept) Py_VISIT(o.get());
      for (const Object& o : v->constants) Py_VISIT(o.get());
      Py_VISIT(v->graph.differentiable.get());
    }
  }
  return 0;
}

void Captured::clear() {
  last_ = nullptr;
  auto old = std::move(segments_);
  segments_.clear();
  wrapped_ = Object();
}

}  // namespace vesta::capture
