#include "capture/python/segments/segmented_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/events.h"
#include "capture/entry/context_key.h"
#include "capture/entry/eager_calls.h"
#include "capture/entry/frame_events.h"
#include "capture/entry/late_trace.h"
#include "capture/entry/operator_count.h"
#include "capture/python/interpreter/evaluate.h"
#include "capture/python/segments/break_operations.h"
#include "capture/python/segments/capture_segment.h"
#include "capture/python/segments/place_name.h"
#include "capture/python/segments/refusal.h"
#include "capture/python/segments/run_uncompiled.h"
#include "capture/python/tensors/compile.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/torch_logs.h"
#include "capture/python/wrapper/stance.h"
#include "runtime/differentiable.h"

namespace vesta::capture {
namespace {

std::unique_ptr<FrameEvents> begin_frame(const Captured& captured, Frame* f) {
  return std::make_unique<FrameEvents>(captured.name(), place_name(code_of(f), 0));
}

// What changed, as text. Empty for a guard of a graph: its own text names both values.
std::string change_of(const CaptureRecompile& why) {
  return why.was.empty() && why.now.empty() ? std::string() : fmt::format("{} became {}", why.was, why.now);
}

void record_recompile(const CaptureRecompile& why, const Variant& v) {
  events::Ids ids = events::current();
  ids.segment = v.segment;
  ids.variant = v.id;
  const events::Within within(ids);
  events::record(events::Type::Recompile, why.guard, change_of(why));
}

void log_for_torch(const std::string& function, const Variant& v, const CaptureRecompile* why) {
  if (why && is_on(TorchLog::Recompiles)) {
    write(TorchLog::Recompiles,
          fmt::format("Recompiling function {} at {}:{} in {:.1f} ms\n    triggered by: {}\n    {}", function,
                      why->segment.file, why->segment.line, why->ms, why->guard, change_of(*why)));
  }
  if (!v.report.stop || !is_on(TorchLog::GraphBreaks)) return;
  const CaptureBreak& b = *v.report.stop;
  std::string text = fmt::format("Graph break in user code at {}:{}, in {}\nReason: {}\nHint: {}\nName: {}",
                                 b.where.file, b.where.line, b.where.function, b.reason, b.hint, b.name);
  for (const UserLine& caller : b.stack)
    text += fmt::format("\n  called at {}:{}, in {}", caller.file, caller.line, caller.function);
  write(TorchLog::GraphBreaks, text);
}

constexpr int kMostIdleSegments = 64;  // in a row without an operator, before CPython runs the rest

// Adds what a compile took in the background, after a call had waited for it.
void account_for_rest(Captured& captured, Segment& s, Variant& v) {
  const double rest = std::max(0.0, v.report.compiled->total_ms - std::exchange(v.waited_ms, -1));
  captured.account.compiled(rest, true);
  s.capture_ms += rest;
}

// Takes the variants out that are to be traced again at this call. If there is one, `why` names its break.
std::vector<std::shared_ptr<Variant>> take_passing(Segment& s, CaptureRecompile& why) {
  if (s.passing == 0) return {};
  const auto first =
      std::stable_partition(s.variants.begin(), s.variants.end(), [](const auto& v) { return !v->passing; });
  std::vector<std::shared_ptr<Variant>> out(std::make_move_iterator(first), std::make_move_iterator(s.variants.end()));
  s.variants.erase(first, s.variants.end());
  if (out.empty()) return out;
  if (out.back()->report.stop)
    why.guard = out.back()->report.stop->reason, why.was = "a break", why.now = "it may pass";
  else
    why.guard = "a warning", why.was = "given", why.now = "it may be given once only";
  return out;
}

void count_gain(const Variant& v, Gain& gain) {
  gain.entered = true;
  ++gain.segments;
  gain.frames += v.frames;
  gain.trains |= v.graph.training != nullptr;
  gain.on_gpu |= v.graph.on_gpu;
  if (!v.graph.executable) return;
  gain.kernels += static_cast<int64_t>(v.graph.report.kernels.size());
  gain.operators += v.graph.report.ops_extern;
}

// The instructions before which the segment's variants end; none if they all end with a return.
std::vector<int> ends_of(const Segment& s) {
  std::vector<int> ends;
  for (const auto& v : s.variants)
    if (v->epilogue.kind == Epilogue::Kind::Break) ends.push_back(v->epilogue.position);
  return ends;
}

// Whether the variant that was hit last has an operator.
bool computes(const Segment& s) {
  if (s.variants.empty()) return false;
  const CompiledGraph& graph = s.variants.front()->graph;
  return graph.executable && graph.report.ops_traced > 0;
}

bool ends_at_returns(const Segment& s) {
  return std::ranges::all_of(s.variants, [](const auto& v) { return v->epilogue.kind == Epilogue::Kind::Return; });
}

// Gives the warnings of a run, and at the end of the frame those of traces that came to nothing.
bool give_warnings(Ready& ready, Frame* f, int position, const std::vector<Warning>& lost) {
  const std::vector<Warning>& known = ready.variant->warnings;
  const bool over = ready.variant->epilogue.kind == Epilogue::Kind::Return && !lost.empty();
  if (known.empty() && ready.warnings.empty() && !over) return true;
  place(ready.warnings, f, position);
  // A kernel gives the warning of its operator again when it runs, and so does a trace of its backward half.
  std::erase_if(ready.warnings, [&](const Warning& w) { return std::ranges::find(known, w) != known.end(); });
  return give(known) && give(ready.warnings) && (!over || give(lost));
}

}  // namespace

PyObject* SegmentedCall::go_on_eagerly(const std::string& reason, bool for_now) {
  if (warm_up_) {
    warm_up_->eager = reason;
    return end_warm_up(thread_, frame_, position_);
  }
  gain_->passing = true;
  gain_->for_now |= for_now;
  captured_.fall_back(reason);
  return fresh_ ? evaluate_by_cpython(thread_, frame_, 0) : resume(thread_, frame_, position_);
}

PyObject* SegmentedCall::leave_to_python(const Reason& why) {
  if (why.id == Break::NotWorthIt || (!captured_.fullgraph && !captured_.options.strict))
    return go_on_eagerly(why.text);
  const UserLine line = user_line(code_of(frame_), position_);
  captured_.fullgraph ? refuse_break(why, line) : refuse_eager(why, line);
  return throw_at(thread_, frame_, position_);
}

// The graph failed. An error that eager raises as well is the program's own.
PyObject* SegmentedCall::leave_failed(Segment& s, const Ready& ready) {
  if (ready.not_compiled && !s.skipped.empty()) return leave_to_python(s.skipped);
  gain_->for_now |= ready.pending;
  gain_->pending |= ready.pending;
  std::erase_if(s.variants, [](const auto& v) { return is_lost(v->graph); });  // the next call compiles again
  return ready.refused && captured_.options.strict ? leave_to_python(reason_for(Break::RunFailed, ready.failed))
                                                   : go_on_eagerly(ready.failed);
}

bool SegmentedCall::left(PyObject* result) {
  left_ = result;
  if (!rest_) return false;
  if (result && !gain_->measured)
    rest_->ran_compiled({.compiled = gain_->compiled, .trains = gain_->trains, .on_gpu = gain_->on_gpu}, result);
  gain_->measured |= rest_->is_measured();
  return false;
}

bool SegmentedCall::find(Segment& s, Ready& ready, CaptureDifference* why) {
  const TorchState state = torch_state();
  // By index and by copy: while the graph runs, a call of another thread may change the list.
  for (size_t i = 0; i < s.variants.size(); ++i) {
    const std::shared_ptr<Variant> v = s.variants[i];
    CaptureDifference found;
    if (!(v->entry == state)) {
      if (why && why->guard.empty()) *why = difference(v->entry, state);
      continue;
    }
    std::optional<Stopwatch> watch;
    if (v->graph.pending && !warm_up_ && !turn_) [[unlikely]]
      watch.emplace();
    const bool holds = run_variant(*v, frame_, ready, why ? &found : nullptr);
    if (watch && holds == ready.early && ready.pending)
      turn_.emplace(std::shared_ptr<TierTurns>(v, &v->turns), holds ? Tier::Calls : Tier::Python, *watch, *gain_);
    if (holds) {
      if (!warm_up_) ++v->report.hits;
      if (ready.early) ++v->report.early_hits, totals::of(totals::Count::EarlyHits).add();
      if (v->waited_ms >= 0 && v->report.compiled) [[unlikely]]
        account_for_rest(captured_, s, *v);
      ready.variant = v;
      const auto at = std::find(s.variants.begin(), s.variants.end(), v);
      if (at != s.variants.begin() && at != s.variants.end()) std::rotate(s.variants.begin(), at, at + 1);
      return true;
    }
    if (ready.not_compiled) {
      std::erase(s.variants, v);
      if (ready.not_worth_it)
        after_refused_compile(s, captured_, ready.failed);
      else
        after_failed_compile(s, *v, captured_, ready.failed);
    }
    if (PyErr_Occurred() || !ready.failed.empty()) return false;
    if (why && why->guard.empty()) *why = found;
  }
  return false;
}

bool SegmentedCall::prepare(Segment& s, Ready& ready) {
  CaptureRecompile why;
  dropped_ = take_passing(s, why);
  const bool passed = !dropped_.empty();
  const auto may_ask_again = [&] { return !PyErr_Occurred() && ready.failed.empty(); };
  if (find(s, ready, nullptr) || (may_ask_again() && find(s, ready, &why))) {
    if (!warm_up_) ++captured_.hits;
    return true;
  }
  if (PyErr_Occurred()) return left(throw_at(thread_, frame_, position_));
  if (!ready.failed.empty()) return left(leave_failed(s, ready));
  ++captured_.misses;
  gain_->passing = true;
  const Stance set = stance();
  if (set == Stance::FailOnMiss) {
    refuse_recompile(captured_.name(), why);
    return left(throw_at(thread_, frame_, position_));
  }
  if (set == Stance::EagerOnMiss) return left(go_on_eagerly("torch.compiler.set_stance forces eager mode", true));
  s.gone += static_cast<int64_t>(std::erase_if(s.variants, [](const auto& v) { return !v->watched.alive(); }));
  const std::string full = why_no_more_variants(captured_.options, static_cast<int64_t>(s.variants.size()) + s.gone,
                                                fmt::format("{}: it is {}", why.guard, why.now));
  if (!full.empty()) return left(leave_to_python(reason_for(Break::TooManyVariants, full)));
  const bool traced_before = passed || !s.variants.empty() || s.gone > 0 || s.held_back;
  const std::string too_long = traced_before && !warm_up_ ? captured_.account.why_not(s.capture_ms) : std::string();
  if (!too_long.empty()) {
    s.held_back = true;
    return left(go_on_eagerly(too_long));
  }
  return add_variant(s, ready, why, traced_before);
}

bool SegmentedCall::add_variant(Segment& s, Ready& ready, CaptureRecompile& why, bool traced_before) {
  const auto begin = CompileTime::Clock::now();
  const auto end = warm_up_ ? warm_up_->end : compile_time_.end(captured_.options.deadline_ms);
  const bool first = fresh_ && gain_->segments == 0;
  const SegmentCapture made = capture_segment(thread_, frame_, s, captured_, first, end, lost_);
  s.capture_ms = compile_time_.add_since(begin);
  if (!warm_up_) captured_.account.compiled(s.capture_ms, traced_before);
  gain_->compiled = true;
  gain_->compile_ms += s.capture_ms;
  // The exception is the program's: it is no failure of Vesta's to find a graph.
  if (!made.raises.empty()) return left(go_on_eagerly(made.raises));
  if (!made.late.empty()) {
    const OperatorCount operators;
    const bool goes_on = left(leave_to_python(made.late));
    const LateTrace trace{captured_.options.deadline_ms, s.capture_ms, made.operators};
    s.enough_ms = std::max(s.enough_ms, trace.enough_ms(operators.with_derivatives()));
    return goes_on;
  }
  const std::shared_ptr<Variant>& v = made.variant;
  if (!v) return left(leave_to_python(s.skipped));
  if (v->report.pending && traced_before && !warm_up_) v->waited_ms = s.capture_ms;
  if (captured_.fullgraph && v->epilogue.kind == Epilogue::Kind::Break && !v->passing) {
    refuse_break(v->stop, v->report.stop->where);
    return left(throw_at(thread_, frame_, position_));
  }
  // torch gives some warnings only once, and the trace has used that up: the next trace shows whether it comes again.
  if (std::vector<Warning> unknown = warnings_without(v->warnings, s.warned); !unknown.empty()) {
    append(s.warned, std::move(unknown));
    v->passing = v->passing || ++s.passing <= Segment::kMostPassing;
  }
  if (traced_before) {
    why.segment = user_line(code_of(frame_), position_);
    why.ms = v->report.total_ms;
    captured_.recompiles.push_back(why);
    totals::of(totals::Count::Recompiles).add();
    if (events::is_on()) record_recompile(why, *v);
  } else {
    totals::of(totals::Count::Segments).add();
    if (fresh_) totals::of(totals::Count::Frames).add();
  }
  totals::of(totals::Count::Variants).add();
  s.variants.insert(s.variants.begin(), v);
  log_for_torch(captured_.name(), *v, traced_before ? &why : nullptr);
  if (warm_up_) warm_up_->is_new = true;
  CaptureDifference unserved;
  if (find(s, ready, &unserved)) return true;
  if (PyErr_Occurred()) return left(throw_at(thread_, frame_, position_));
  if (ready.failed.empty()) {
    const Reason reason = reason_for(Break::TraceDoesNotServe, unserved.guard);
    return left(captured_.options.strict ? leave_to_python(reason) : go_on_eagerly(reason.text));
  }
  if (ready.refused) s.skipped = reason_for(Break::RunFailed, ready.failed);
  return left(leave_failed(s, ready));
}

bool SegmentedCall::execute_break() {
  BreakOperations operations(captured_, gain_);
  link(thread_, frame_);
  Evaluation e{thread_, frame_, operations, position_};
  const Step outcome = step(e);
  unlink(thread_, frame_);
  if (outcome == Step::Error) return left(throw_at(thread_, frame_, position_));
  if (outcome == Step::Return) return left(finish(thread_, frame_, e.result, position_));
  position_ = e.position;
  if (is_observed(thread_, code_of(frame_))) return left(resume(thread_, frame_, position_));
  return true;
}

bool SegmentedCall::run_compiled(Segment& s, SegmentTurn& turn) {
  const double compile_ms = gain_->compile_ms;
  Ready ready;
  if (warm_up_ && !warm_up_->runs) ready.checked_at = warm_up_->end;
  if (!prepare(s, ready)) return false;
  const std::shared_ptr<Variant> v = ready.variant;
  const Epilogue& end = v->epilogue;
  if (warm_up_) {
    warm_up_->ready = true;
    if (end.kind == Epilogue::Kind::Break) warm_up_->stop = v->report.stop;
    if (warm_up_->runs && v->graph.executable) warm_up_->packed_bytes = v->graph.executable->prepacked_bytes();
    return left(end_warm_up(thread_, frame_, position_));
  }
  count_gain(*v, *gain_);
  gain_->passing |= ready.early;
  gain_->for_now |= ready.early;
  PyObject* result = nullptr;
  if (!give_warnings(ready, frame_, position_, lost_) || !leave_segment(frame_, ready, &result))
    return left(throw_at(thread_, frame_, position_));
  Gain gain;
  count_gain(*v, gain);
  gain.compiled = ready.early || gain_->compile_ms != compile_ms;
  turn.ran_compiled(gain, result);
  if (end.kind == Epilogue::Kind::Return) return left(finish(thread_, frame_, result, end.position));
  position_ = end.position;
  if (v->report.stop) ++v->report.stop->count;
  return true;
}

bool SegmentedCall::run_uncompiled(const std::shared_ptr<Segment>& s, SegmentTurn& turn) {
  gain_->entered = true;
  std::vector<int> ends = ends_of(*s);
  if (!turn.is_measured() && !rest_) rest_.emplace(s, &Segment::rest, frame_, true, !gain_->alone);
  const bool to_the_end = rest_ && rest_->is_uncompiled();
  if (to_the_end) ends.clear();
  const UncompiledRun ran = capture::run_uncompiled(thread_, frame_, position_, ends);
  if (ran.astray)
    turn.went_astray();
  else if (!ran.left || *ran.left)
    turn.ran_uncompiled(ran.left.value_or(nullptr));
  if (to_the_end) {
    if (*ran.left) rest_->ran_uncompiled(*ran.left);
    gain_->measured |= rest_->is_measured();
    rest_.reset();
  }
  if (ran.left) return left(*ran.left);
  position_ = ran.position;
  for (const auto& v : s->variants)
    if (v->report.stop && v->epilogue.position == position_) {
      ++v->report.stop->count;
      break;
    }
  return true;
}

PyObject* SegmentedCall::run() {
  std::unique_ptr<FrameEvents> events;
  if (events::is_on()) [[unlikely]]
    events = begin_frame(captured_, frame_);
  int idle = 0;  // segments in a row without an operator
  for (;;) {
    const std::shared_ptr<Segment> s = captured_.segment(code_of(frame_), position_);
    // The instruction at a break may have entered a mode.
    if (is_other_function_mode_active()) return go_on_eagerly("a torch function mode is active", true);
    if (const char* mode = foreign_mode()) return go_on_eagerly(mode, true);
    if (!s->skipped.empty() && !is_worth_another_look(*s, captured_)) {
      const bool whole = fresh_ && !gain_->entered && !captured_.fullgraph;
      left(leave_to_python(s->skipped));
      if (whole) *gain_ = {.entered = true, .fallback = s->skipped.text};
      return left_;
    }
    {
      const bool counts = !warm_up_ && !captured_.profit.is_off() && !s->variants.empty() && lost_.empty() &&
                          !(fresh_ && !gain_->entered && ends_at_returns(*s));
      SegmentTurn turn(s, &Segment::itself, frame_, counts, !gain_->alone);
      gain_->measured |= turn.is_measured();
      if (!(turn.is_uncompiled() ? run_uncompiled(s, turn) : run_compiled(*s, turn))) return left_;
    }  // the breaking instruction works on objects that nothing here refers to any more
    fresh_ = false;
    idle = computes(*s) ? 0 : idle + 1;
    if (idle > kMostIdleSegments) {
      s->skipped = reason_for(Break::TooManyBreaks);
      return resume(thread_, frame_, position_);
    }
    const int64_t before = gain_->kernels + gain_->operators;
    if (!execute_break()) return left_;
    if (gain_->kernels + gain_->operators > before) idle = 0;  // a function that it called is compiled
    dropped_.clear();
  }
}

}  // namespace vesta::capture
