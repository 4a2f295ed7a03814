#include "capture/python/segments/trace_segment.h"

#include <optional>

#include "base/fault.h"
#include "base/stage_clock.h"
#include "capture/python/epilogue/builder.h"
#include "capture/python/gil/gil_hold.h"
#include "capture/python/hook/hook.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/tracer_scope.h"

namespace vesta::capture {
namespace {

struct TraceEnded : std::exception {
  const char* what() const noexcept override { return "a trace has ended at a graph break"; }
};

// Puts back the frame, the handled exception, the garbage collector and torch's state as they were.
class Restore {
 public:
  Restore(PyThreadState* t, Frame* f) : thread_(t), frame_(f), locals_(code_of(f)->co_nlocalsplus) {
    for (int i = 0; i < locals_ + depth_of(f); ++i) slots_.push_back(Object::share(slot(f, i)));
    exception_ = Object::share(t->exc_info->exc_value);
    position_ = executing(f);
    collecting_ = PyGC_Disable();
  }
  ~Restore() {
    const ErrorAside error;
    while (depth_of(frame_) > 0) Py_XDECREF(pop(frame_));
    for (int i = 0; i < locals_; ++i) Py_XSETREF(slot(frame_, i), slots_[static_cast<size_t>(i)].release());
    for (size_t i = static_cast<size_t>(locals_); i < slots_.size(); ++i) push(frame_, slots_[i].release());
    Py_XSETREF(thread_->exc_info->exc_value, exception_.release());
    set_executing(frame_, position_);
    if (collecting_) PyGC_Enable();
  }
  Restore& operator=(Restore&&) = delete;  // neither copied nor moved
  const TorchState& state() const { return state_.state(); }
  PyObject* exception() const { return exception_.get(); }

 private:
  PyThreadState* thread_;
  Frame* frame_;
  int locals_, position_ = 0, collecting_ = 0;
  std::vector<Object> slots_;
  Object exception_;
  const KeptTorchState state_;
};

class Linked {
 public:
  Linked(PyThreadState* t, Frame* f) : thread_(t), frame_(f) { link(t, f); }
  ~Linked() { unlink(thread_, frame_); }
  Linked& operator=(Linked&&) = delete;  // neither copied nor moved

 private:
  PyThreadState* thread_;
  Frame* frame_;
};

class SegmentTrace {
 public:
  SegmentTrace(PyThreadState* t, Frame* f, int position, const TraceSettings& settings, TraceResult& result)
      : thread_(t), frame_(f), position_(position), settings_(settings), result_(result), entry_(torch_state()) {}

  std::vector<PyObject*> run() {
    outputs_.clear();
    alive_.clear();
    running_ = false;
    ended_ = false;
    result_.variant.reset();
    const GilHold gil;
    const WarningsKept kept(result_.warnings);
    tracer_.emplace(frame_, settings_);
    const Restore restore(thread_, frame_);
    struct RollBack {
      Trace& t;
      ~RollBack() {
        t.log.roll_back();
        t.calls.contexts.restore();
      }
    } roll_back{tracer_->trace};
    {
      TracerScope scope(*tracer_);
      const Linked linked(thread_, frame_);
      running_ = true;
      ended_ = !run_frame(restore);
      running_ = false;
      if (ended_) throw TraceEnded();
    }
    return outputs_;
  }

  Trace& trace() { return tracer_->trace; }
  // The root frame's instruction, as TraceResult::restart_at counts them.
  int instruction() const { return running_ ? tracer_->trace.progress.root_count() - 1 : -1; }
  // Empty before and after the program runs: it has no frames then.
  std::string line() const { return running_ ? tracer_->trace.progress.line() : std::string(); }
  // The trace ended at a graph break. The exception that arrives may be that of a failed operator all the same.
  bool ended() const { return ended_; }

 private:
  bool run_frame(const Restore& restore) {
    Trace& tr = tracer_->trace;
    Evaluation e{thread_, frame_, *tracer_, position_};
    const Step last = tr.variables.begin() ? vesta::capture::run(e) : Step::Error;
    const Object value = Object::take(last == Step::Return ? e.result : nullptr);
    result_.site = tr.progress.site();
    result_.asked_compiling = tr.calls.asked_compiling;
    result_.frames = tr.functions.entered_frames();
    if (last == Step::Error || last == Step::Yield || tr.ended()) {
      if (!tr.ended()) {
        PyObject* type = PyErr_Occurred();
        result_.site.reason =
            reason_for(Break::Raised, type ? reinterpret_cast<PyTypeObject*>(type)->tp_name : "an exception");
        result_.raised = true;
      }
      PyErr_Clear();
      // An exception that a handler of the root frame works on is raised again by the instruction that raised it.
      result_.restart_at = tr.progress.raised_at() >= 0 && tr.progress.raised_at() < tr.progress.root_count()
                               ? tr.progress.raised_at()
                               : tr.progress.root_count() - 1;
      return false;
    }
    EpilogueBuilder builder(tr, frame_);
    bool ok = false;
    {
      const HookOff off;  // the program itself reads nothing here
      ok = last == Step::Return ? builder.leave_by_return(value.get(), executing(frame_))
                                : builder.leave_by_break(e.position);
    }
    PyErr_Clear();
    if (ok && thread_->exc_info->exc_value != restore.exception()) {
      ok = last == Step::Return;
      if (!ok) builder.objects.reason = reason_for(Break::ExceptionAtWork);
    }
    const TorchState now = torch_state();
    // Only the program's changes count, not what a trace itself switches off.
    const std::optional<TorchState> leave = carried(entry_, restore.state(), now);
    if (ok && !leave) {
      ok = false;
      builder.objects.reason = reason_for(Break::TorchModesChanged);
    }
    if (const int set = tr.calls.contexts.changed(); ok && set >= 0) {
      result_.restart_at = set;
      result_.site.reason = reason_for(Break::ContextVariableChanged);
      result_.site.where = {};
      return false;
    }
    if (!ok) {
      int at = builder.objects.blocked ? tr.made.born_at(builder.objects.blocked) : -1;
      if (at < 0) at = tr.progress.raised_at();
      result_.guessed = at < 0 && tr.progress.root_count() > 0;
      result_.restart_at = result_.guessed ? std::max(0, tr.progress.root_count() - 2) : at;
      result_.site.reason = builder.objects.reason;
      result_.site.where = {};
      return false;
    }
    fault::reached("guards");
    outputs_ = builder.objects.outputs;
    alive_ = std::move(builder.objects.alive);
    finish(builder, entry_, *leave);
    return true;
  }

  void finish(EpilogueBuilder& builder, const TorchState& entry, const TorchState& leave) {
    Trace& tr = tracer_->trace;
    std::vector<int> needed = builder.epilogue.needed, written, objects;
    for (const UndoLog::Entry& e : tr.log.entries())
      if (const int s = tr.sources.find(e.target.get()); s >= 0 && tr.sources[s].kind != SourceKind::Constant)
        written.push_back(s);
    for (const auto& [object, s] : tr.sources.known()) {
      if (tr.sources[s].kind == SourceKind::Constant) continue;
      objects.push_back(s);
      if (is_tensor(object)) needed.push_back(s);
    }
    for (const IntegerRead& r : tr.numbers.integers()) needed.push_back(r.source);
    for (const int source : tr.numbers.sources_of_tensors()) needed.push_back(source);
    std::vector<std::string> effects = std::move(builder.effect_texts());
    auto v = std::make_shared<Variant>(GuardProgram(tr.sources.places(), tr.guards.guards(), tr.guards.lookups(),
                                                    std::move(needed), std::move(written), std::move(objects)),
                                       std::move(builder.epilogue));
    v->guards.code = code_of(frame_);
    v->entry = entry;
    v->leave = leave;
    v->frames = tr.functions.entered_frames();
    v->report.effects = std::move(effects);
    for (const IntegerRead& r : tr.numbers.integers()) v->integers.push_back(r.source);
    result_.variant = std::move(v);
  }

  PyThreadState* thread_;
  Frame* frame_;
  int position_;
  const TraceSettings& settings_;
  TraceResult& result_;
  const TorchState entry_;  // before the trace
  std::optional<Tracer> tracer_;
  bool ended_ = false;
  bool running_ = false;  // the program; a run that threw leaves it set
  std::vector<PyObject*> outputs_;
  std::vector<Object> alive_;
};

}  // namespace

TraceResult trace_segment(PyThreadState* t, Frame* f, int position, const TraceSettings& settings) {
  const StageClock clock("trace");
  TraceResult result;
  SegmentTrace segment(t, f, position, settings, result);
  try {
    result.graph = trace_graph([&] { return segment.run(); }, {settings.end, settings.memory}, settings.gradients,
                               [&] { return segment.line(); }, [&] { return segment.instruction(); });
    Trace& tr = segment.trace();
    for (const GraphInput& input : result.graph.inputs) {
      if (const int number = tr.numbers.source_of_tensor(input.tensor.get()); number >= 0) {
        result.variant->inputs.push_back({number, nullptr, true});
        result.variant->require_grad.push_back(false);
        continue;
      }
      const int source = tr.sources.find(input.tensor.get());
      if (source < 0 && input.seen_in_python) {
        result.variant.reset();
        result.restart_at = -1;
        result.site.reason = reason_for(Break::TensorNotReached);
        break;
      }
      const bool constant = source < 0 || tr.sources[source].kind == SourceKind::Constant;
      result.variant->inputs.push_back({constant ? -1 : source, constant ? input.tensor.get() : nullptr});
      if (constant) result.variant->constants.push_back(input.tensor);
      result.variant->require_grad.push_back(requires_grad(input.tensor.get()));
    }
  } catch (const TraceEnded&) {
    result.variant.reset();
  } catch (const std::exception& e) {
    result.variant.reset();
    result.site.needs_gradients |= is_gradient_error(e);
    if (!segment.ended()) {
      result.restart_at = place_of_gradient(e);
      result.site.reason = reason_for(e);
      result.site.operators = operators_until(e);
    }
  }
  PyErr_Clear();
  result.trace_ms = clock.milliseconds();
  return result;
}

}  // namespace vesta::capture
