#include "capture/python/segments/captured.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/stopwatch.h"
#include "capture/entry/operator_count.h"
#include "capture/python/functions/compilers.h"
#include "capture/python/hook/hook.h"
#include "capture/python/interpreter/evaluate.h"
#include "capture/python/segments/break_operations.h"
#include "capture/python/segments/refusal.h"
#include "capture/python/segments/segment_turn.h"
#include "capture/python/segments/segmented_call.h"
#include "capture/python/tensors/compile.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/wrapper/captured_function.h"

namespace vesta::capture {
namespace {

// Why no part of a frame of this code is ever compiled.
std::optional<Break> why_never(PyThreadState* t, PyCodeObject* code) {
  if (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) return Break::GeneratorFunction;
  if (!(code->co_flags & CO_OPTIMIZED)) return Break::NotAFunction;
  if (is_observed(t, code)) return Break::Observed;
  return std::nullopt;
}

// The frame in which a module that is compiled is called: that of its class's __call__ or forward.
bool is_call_of_chosen(const ChosenModules& chosen, Frame* f) {
  PyCodeObject* code = code_of(f);
  if (code->co_argcount < 1 || !slot(f, 0) || !chosen.is_only(slot(f, 0))) return false;
  const auto is_method = [&](PyObject* name) {
    PyObject* method = _PyType_Lookup(Py_TYPE(slot(f, 0)), name);
    return method && PyFunction_Check(method) && PyFunction_GET_CODE(method) == reinterpret_cast<PyObject*>(code);
  };
  return is_method("__call__"_name) || is_method("forward"_name);
}

// Receives those frames.
class ChosenFrames final : public FrameReceiver {
 public:
  ChosenFrames(Captured& captured, Gain* gain) : captured_(captured), gain_(gain) {}
  bool wants(Frame* f) override { return is_call_of_chosen(captured_.chosen, f); }
  PyObject* receive(PyThreadState* t, Frame* f, int) override { return captured_.enter(t, f, gain_); }

 private:
  Captured& captured_;
  Gain* gain_;
};

}  // namespace

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

PyObject* Captured::warm(PyThreadState* t, Frame* f, WarmUp& out) {
  Gain gain;
  return enter(t, f, &gain, &out);
}

PyObject* Captured::run_around_chosen(PyThreadState* t, Frame* f, Gain* gain, WarmUp* warm_up) {
  if (warm_up) {
    warm_up->eager = "only some of its modules are compiled, each when a call first reaches it";
    return end_warm_up(t, f, 0);
  }
  ChosenFrames frames(*this, gain);
  const SelectingScope scope(frames);
  return evaluate_by_cpython(t, f, 0);
}

PyObject* Captured::enter(PyThreadState* t, Frame* f, Gain* gain, WarmUp* warm_up) {
  PyCodeObject* code = code_of(f);
  if (chosen.has_only() && !is_call_of_chosen(chosen, f)) return run_around_chosen(t, f, gain, warm_up);
  std::optional<Break> why = why_never(t, code);
  if (!why && checked_code_.get() != reinterpret_cast<PyObject*>(code)) {
    if (is_code_of_compiler(code))
      why = Break::CompilerCode;
    else
      checked_code_ = Object::share(reinterpret_cast<PyObject*>(code));
  }
  if (why) {
    const Reason reason = reason_for(*why);
    if (!is_observed(t, code) && (fullgraph || options.strict)) {
      fullgraph ? refuse_break(reason, user_line(code, 0)) : refuse_eager(reason, user_line(code, 0));
      return throw_at(t, f, 0);
    }
    if (warm_up) {
      warm_up->eager = reason.text;
      return end_warm_up(t, f, 0);
    }
    fall_back(reason.text);
    return evaluate_by_cpython(t, f, 0);
  }
  const bool may_wait = !warm_up && !fullgraph && !options.strict;
  if (PyObject* result = nullptr; may_wait && options.strategy == "auto" && runs_first(t, f, gain, &result))
    return result;
  if (Py_EnterRecursiveCall(" in a compiled function") != 0) return throw_at(t, f, 0);
  PyObject* result = SegmentedCall(*this, t, f, gain, warm_up).run();
  Py_LeaveRecursiveCall();
  return result;
}

bool Captured::runs_first(PyThreadState* t, Frame* f, Gain* gain, PyObject** result) {
  if (!first_calls_.are_known() && !has_gpu()) {
    const CallSignature call(first_locals(f));  // read now, because the call frees the frame
    const Stopwatch watch;
    const OperatorCount operators;
    *result = evaluate_by_cpython(t, f, 0);
    if (*result) first_calls_.took(call, 1e3 * watch.milliseconds(), operators.now(), options.expected_calls);
    gain->passing = gain->for_now = true;
    fall_back("strategy=\"auto\" runs the first two calls uncompiled");
    return true;
  }
  const std::string& why = first_calls_.why_not(calls.value());
  if (why.empty()) return false;
  fall_back(why);
  *gain = {.entered = true, .fallback = why};
  *result = evaluate_by_cpython(t, f, 0);
  return true;
}

double Captured::first_calls_us(Frame* f) const { return first_calls_.us_of(first_locals(f)); }

bool Captured::wait(std::chrono::steady_clock::time_point end, int tier) const {
  std::vector<std::shared_ptr<Variant>> variants;
  for (const auto& [place, s] : segments_) std::ranges::copy(s->variants, std::back_inserter(variants));
  bool all = true;
  for (const std::shared_ptr<Variant>& v : variants) {
    const bool pending = v->report.pending && !is_lost(v->graph);
    if (const std::shared_ptr<CompiledGraph> early = v->graph.early; pending && early && tier < 2) {
      wait_for_compile(*early, end);
      if (is_early_ready(*v)) continue;
    }
    try {
      all = wait_for_compile(v->graph, end) && all;
      if (v->report.pending && !is_lost(v->graph)) v->take_compiled();
      all = wait_for_backward(v->graph, end) && all;
    } catch (const std::exception&) {  // the next call of it gets the error, and runs eager
    }
  }
  return all;
}

void Captured::reset() {
  // Running calls share what they use.
  last_ = nullptr;
  auto old = std::move(segments_);
  segments_.clear();
  aside.forget();
  profit.forget();
  eager_calls_.clear();
  recompiles.clear();
  account.clear();
  for (totals::Tally* count : {&calls, &aside.calls, &hits, &misses}) count->clear();
}

int Captured::traverse(visitproc visit, void* arg) const {
  Py_VISIT(wrapped_.get());
  int stopped = 0;
  chosen.each([&](PyObject* module) { stopped = stopped ? stopped : visit(module, arg); });
  if (stopped) return stopped;
  for (const auto& [key, held] : segments_) {
    if (held.use_count() > 1) continue;
    const Segment& s = *held;
    Py_VISIT(s.code.get());
    for (const auto& v : s.variants) {
      if (v.use_count() > 1) continue;  // a call uses it
      for (const std::vector<Object>* holder : v->holders())
        for (const Object& o : *holder) Py_VISIT(o.get());
    }
  }
  return 0;
}

void Captured::clear() {
  last_ = nullptr;
  auto old = std::move(segments_);
  segments_.clear();
  wrapped_ = Object();
  const auto modules = std::exchange(chosen, {});
}

PyObject* make_captured(PyObject* wrapped, Options options, std::string name, bool fullgraph, ChosenModules chosen) {
  auto captured = std::make_unique<Captured>(Object::share(wrapped), std::move(options), std::move(name), fullgraph,
                                             std::move(chosen));
  const Options& o = captured->options;
  if (!o.only_if_faster || fullgraph || o.strict) captured->profit.switch_off();
  if (!fullgraph && !o.strict) captured->account.set_share(o.recompile_share);
  return new_captured_function(std::move(captured));
}

const Captured& captured_of(PyObject* x) { return static_cast<const Captured&>(captured_in(x)); }

}  // namespace vesta::capture
