#include "capture/python/segments/capture_segment.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/compile_memory.h"
#include "base/events.h"
#include "base/stopwatch.h"
#include "base/totals.h"
#include "capture/entry/late_trace.h"
#include "capture/python/segments/place_name.h"
#include "capture/python/segments/trace_segment.h"
#include "capture/python/tensors/compile.h"
#include "capture/python/tensors/tensors.h"
#include "pipeline/strategy.h"

namespace vesta::capture {
namespace {

using Clock = std::chrono::steady_clock;

// After so many traces of a segment that lacked time or memory, its frames are left to CPython. If they lacked time,
// the segment is traced again after kCallsToLookAgain calls, and each time that the number of calls has doubled.
constexpr int kMostLateTraces = 3;
constexpr int64_t kCallsToLookAgain = 16;
constexpr int kMostTraces = 24;  // of one segment for one call: each break moves the end

// Decides what follows a trace that gave no graph.
class Attempts {
 public:
  Attempts(const Captured& captured, Segment& segment, Clock::time_point end) : fullgraph_(captured.fullgraph) {
    settings.end = end_of_trace(end);
    settings.memory = compile_budget(captured.options.compile_memory);
    settings.dynamic = captured.options.dynamic;
    settings.history = &segment.history;
    settings.whole = captured.fullgraph;
    settings.chosen = &captured.chosen;
    settings.apart = segment.apart;
  }

  enum class Next { Again, LeaveToPython };
  Next after(TraceResult r) {
    const Then then = row(r.site.reason.id).then;
    if (then == Then::RunEager) return leave_to_python(r);
    if (then == Then::TraceWithoutSymbols && settings.symbols) {
      settings.symbols = false;
      settings.stop_at = -1;
      return Next::Again;
    }
    if (r.site.wants_value || load(r.site.module)) return Next::Again;
    if (r.site.needs_gradients && !settings.gradients) {
      settings.gradients = true;
      return Next::Again;
    }
    // A program that knows that it is compiled may raise where eager does not. At a break, eager code follows.
    if (r.asked_compiling && settings.says_compiling) {
      settings.says_compiling = false;
      return Next::Again;
    }
    if (fullgraph_ && r.raised) {
      raises = r.site.reason.text;
      return leave_to_python(r);
    }
    // Each guess goes twice as far back, to reach a cause that is far back.
    if (r.guessed) r.restart_at = std::max(0, r.restart_at + 1 - (1 << guesses_++));
    if (r.restart_at < 0 || (settings.stop_at >= 0 && r.restart_at >= settings.stop_at)) {
      const bool constants_may_do = settings.symbols && r.restart_at < 0;
      settings.symbols = settings.symbols && !constants_may_do;
      site = std::move(r.site);
      return constants_may_do ? Next::Again : Next::LeaveToPython;
    }
    settings.stop_at = r.restart_at;
    site = std::move(r.site);
    return Next::Again;
  }

  TraceSettings settings;
  BreakSite site;  // of the last break that ended a trace
  std::string raises;
  int frames = 0;  // of Python functions that the last trace entered

 private:
  // Whether this module was missing and is there now.
  static bool load(const std::string& module) {
    if (module.empty() || PyDict_GetItemString(PyImport_GetModuleDict(), module.c_str())) return false;
    const Object loaded = Object::take(PyImport_ImportModule(module.c_str()));
    PyErr_Clear();  // the program's own import raises it
    return static_cast<bool>(loaded);
  }

  Next leave_to_python(TraceResult& r) {
    site = std::move(r.site);
    return Next::LeaveToPython;
  }

  bool fullgraph_;
  int guesses_ = 0;
};

// The events of a capture belong to the variant that it makes.
class CaptureEvents {
 public:
  CaptureEvents(Frame* f, Segment& segment) : ids_(ids_for(segment)), within_(ids_) {
    if (events::is_on()) span_.emplace(events::Type::Capture, place_name(code_of(f), segment.position));
  }
  const events::Ids& ids() const { return ids_; }

 private:
  static events::Ids ids_for(Segment& segment) {
    events::Ids ids = events::current();
    if (segment.id == 0) segment.id = events::new_id();
    ids.segment = segment.id;
    ids.variant = events::new_id();
    return ids;
  }
  const events::Ids ids_;
  const events::Within within_;
  std::optional<events::Span> span_;
};

CaptureBreak break_report(const Variant& v, const BreakSite& site, PyCodeObject* code) {
  CaptureBreak b;
  b.where = site.where.line > 0 ? site.where : user_line(code, v.epilogue.position);
  b.stack = site.stack;
  int units = 0;
  b.instruction = name_of_opcode(pristine_code(code, &units)[2 * v.epilogue.position]);
  b.name = row(site.reason.id).name;
  b.reason = site.reason.text;
  b.hint = row(site.reason.id).hint;
  return b;
}

// For vesta.explain, where another trace of the segment succeeds.
void note_failure(Segment& segment, const std::string& why) {
  if (segment.failures.size() < Segment::kMostFailures) segment.failures.insert(why);
}

// Whether a segment whose graph failed has parts to compile apart. `frames`: of Python functions that its trace
// entered.
bool has_parts(const Segment& segment, int frames, const Captured& captured) {
  return frames > 0 && segment.apart.empty() && !captured.fullgraph && !captured.options.strict;
}

}  // namespace

void after_failed_compile(Segment& segment, const Variant& failed, const Captured& captured, const std::string& why) {
  if (has_parts(segment, failed.frames, captured)) {
    note_failure(segment, why);
    segment.apart = why;
  } else {
    segment.skipped = reason_for(Break::CompileFailed, why);
  }
}

namespace {

// For "auto": more calls than were expected let as many again be expected.
Options options_now(const Captured& captured) {
  Options o = captured.options;
  o.expected_calls = std::max(o.expected_calls, 2 * captured.calls.value());
  return o;
}

}  // namespace

void after_refused_compile(Segment& segment, const Captured& captured, const std::string& why) {
  segment.skipped = reason_for(Break::NotWorthIt, why);
  segment.look_again = options_now(captured).expected_calls;
}

bool is_worth_another_look(Segment& segment, const Captured& captured) {
  const Break why = segment.skipped.id;
  if (why != Break::NotWorthIt && why != Break::DeadlinePassed) return false;
  if (segment.look_again == 0 || captured.calls.value() <= segment.look_again) return false;
  segment.skipped = {};
  return true;
}

SegmentCapture capture_segment(PyThreadState* t, Frame* f, Segment& segment, const Captured& captured, bool first,
                               Clock::time_point end, std::vector<Warning>& lost) {
  const Stopwatch watch;
  const CaptureEvents scope(f, segment);
  Attempts attempts(captured, segment, end);
  attempts.settings.says_compiling = first;
  std::optional<TraceResult> done;
  for (int i = 0; i < kMostTraces; ++i) {
    TraceResult r = trace_segment(t, f, segment.position, attempts.settings);
    attempts.frames = r.frames;
    if (r.variant) {
      done = std::move(r);
      break;
    }
    append(lost, warnings_without(r.warnings, lost));
    if (r.site.reason.id == Break::TraceFailed) note_failure(segment, r.site.reason.text);
    if (attempts.after(std::move(r)) == Attempts::Next::LeaveToPython) break;
  }
  BreakSite& site = attempts.site;
  if (site.reason.id == Break::DeadlinePassed)
    site.reason = reason_for(site.reason.id, deadline_text(captured.options.deadline_ms, segment.enough_ms));
  const bool may_do_later = site.reason.id == Break::DeadlinePassed || site.reason.id == Break::GraphMemory;
  if (!done && may_do_later && ++segment.late < kMostLateTraces) {
    const bool lacks_time = site.reason.id == Break::DeadlinePassed;
    return {nullptr, {}, site.reason, lacks_time ? site.operators : 0};
  }
  if (!done && site.reason.id == Break::TraceFailed && has_parts(segment, attempts.frames, captured)) {
    segment.apart = site.reason.text;
    return capture_segment(t, f, segment, captured, first, end, lost);
  }
  if (!done) {
    if (!attempts.raises.empty()) return {nullptr, attempts.raises};
    segment.skipped = site.reason.empty() ? reason_for(Break::TooManyBreaks) : site.reason;
    // By then the machine may be less busy.
    if (site.reason.id == Break::DeadlinePassed)
      segment.look_again = std::max(kCallsToLookAgain, 2 * captured.calls.value());
    return {};
  }
  TraceResult& r = *done;
  Variant& v = *r.variant;
  v.id = scope.ids().variant;
  v.segment = scope.ids().segment;
  v.name = place_name(code_of(f), segment.position);
  v.warnings = std::move(r.warnings);
  lost = warnings_without(lost, v.warnings);
  v.report.end = v.epilogue.kind == Epilogue::Kind::Return ? "return" : "break";
  if (v.epilogue.kind == Epilogue::Kind::Break) {
    v.report.stop = break_report(v, site, code_of(f));
    v.stop = site.reason;
    totals::of(totals::ByName::Breaks, v.report.stop->name).add();
    if (events::is_on()) events::record(events::Type::Break, v.report.stop->name, v.report.stop->reason);
    v.passing = row(site.reason.id).then == Then::TraceEachTime && ++segment.passing <= Segment::kMostPassing;
  }
  v.report.stages.push_back({"trace", r.trace_ms});
  v.report.ops = std::move(r.graph.operators);
  if (!r.graph.empty) {
    try {
      r.graph.frames = r.frames;
      Options options = options_now(captured);
      // A part that is left to Python takes the parts after it along.
      if (segment.position != 0 || v.epilogue.kind != Epilogue::Kind::Return) options.strategy = "whole";
      if (options.strategy == "auto") r.graph.eager_us = captured.first_calls_us(f);
      v.graph = compile_graph(std::move(r.graph), options, r.trace_ms, end);
      v.report.pending = v.graph.pending != nullptr;
      if (!v.report.pending) v.report.compiled = v.graph.report;
    } catch (const pipeline::NotWorthIt& e) {
      after_refused_compile(segment, captured, e.what());
      return {};
    } catch (const std::exception& e) {
      after_failed_compile(segment, v, captured, e.what());
      if (segment.skipped.empty()) return capture_segment(t, f, segment, captured, first, end, lost);
      return {};
    }
  }
  v.report.total_ms = watch.milliseconds();
  v.let_go();
  return {r.variant, {}};
}

}  // namespace vesta::capture
