// A captured callable: its segments, by code and place, and the counts of its calls. Holds state alone:
// segmented_call.h takes a frame through the segments.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capture/python/segments/first_calls.h"
#include "capture/python/segments/variant.h"
#include "capture/python/values/chosen_modules.h"
#include "capture/python/wrapper/captured_callable.h"
#include "vesta/options.h"

namespace vesta::capture {

class Captured final : public CapturedCallable {
 public:
  Captured(Object wrapped, Options options, std::string name, bool fullgraph, ChosenModules chosen)
      : CapturedCallable(std::move(wrapped), std::move(name)),
        options(std::move(options)),
        fullgraph(fullgraph),
        chosen(std::move(chosen)) {}

  PyObject* enter(PyThreadState* t, Frame* f, Gain* gain) override { return enter(t, f, gain, nullptr); }
  PyObject* warm(PyThreadState* t, Frame* f, WarmUp& out) override;
  // Runs the frame as it is; the Python functions that it calls are captured.
  PyObject* run_with_captured_calls(PyThreadState* t, Frame* f, Gain* gain);
  void reset() override;
  int traverse(visitproc visit, void* arg) const override;
  void clear() override;

  // The segment that begins there, made if it is new. A call shares it: reset() may come while the call compiles.
  std::shared_ptr<Segment> segment(PyCodeObject* code, int position);
  std::vector<const Segment*> segments() const;  // valid until the next call
  CaptureReport report() const;
  // Waits until `end` for compiles in the background, without the GIL, and takes what they have made. False: one is
  // still running. `tier`: 1 waits no longer for a compile whose calls into ATen are ready; 2 for all.
  bool wait(std::chrono::steady_clock::time_point end, int tier) const;

  const Options options;
  const bool fullgraph;
  ChosenModules chosen;
  std::vector<CaptureRecompile> recompiles;
  totals::Tally hits{totals::of(totals::Count::Hits)}, misses{totals::of(totals::Count::Misses)};

  // The measured time in microseconds of an eager call with such arguments; 0: unknown.
  double first_calls_us(Frame* f) const;

 private:
  PyObject* enter(PyThreadState* t, Frame* f, Gain* gain, WarmUp* warm_up);
  // With the option strategy="auto": runs the first calls as they are, and says whether more calls do so, because a
  // compile is not predicted to be worth its time.
  bool runs_first(PyThreadState* t, Frame* f, Gain* gain, PyObject** result);
  // Runs the frame as it is; calls of the modules that are compiled are captured.
  PyObject* run_around_chosen(PyThreadState* t, Frame* f, Gain* gain, WarmUp* warm_up);

  FirstCalls first_calls_;
  Object checked_code_;  // the last code that is not a compiler's
  std::map<std::pair<PyCodeObject*, int>, std::shared_ptr<Segment>> segments_;
  const std::shared_ptr<Segment>* last_ = nullptr;  // in segments_: what segment() returned last
};

// A CapturedFunction of this callable (borrowed); a new reference, nullptr with an error set.
PyObject* make_captured(PyObject* wrapped, Options options, std::string name, bool fullgraph,
                        ChosenModules chosen = {});
// The callable of a CapturedFunction.
const Captured& captured_of(PyObject* captured_function);

}  // namespace vesta::capture
