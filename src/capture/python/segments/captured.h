// A captured callable: its segments by place in the code, and the way a frame takes through them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/entry/eager_calls.h"
#include "capture/python/epilogue/epilogue.h"
#include "capture/python/frame/hook_off.h"
#include "capture/python/frame/warnings.h"
#include "capture/python/guards/guard.h"
#include "capture/python/guards/watched.h"
#include "capture/python/segments/step_aside.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/tracer.h"
#include "vesta/capture_report.h"
#include "vesta/options.h"

namespace vesta::capture {

// One trace of a segment, compiled.
struct Variant {
  Variant(GuardProgram g, Epilogue e) : guards(std::move(g)), epilogue(std::move(e)) {}
  GuardProgram guards;
  Epilogue epilogue;
  TorchState entry, leave;  // torch's state at both ends
  CompiledGraph graph;      // no executable: nothing to run
  struct Input {
    int source = -1;  // register, or
    PyObject* constant = nullptr;
    bool is_number = false;  // of which a tensor is made
  };
  std::vector<Input> inputs;
  std::vector<Object> constants;   // of the inputs
  std::vector<bool> require_grad;  // of the inputs, where gradients are recorded
  std::vector<int> integers;       // registers
  CaptureVariant report;
  Reason stop;                      // of the epilogue, if it is a break
  std::map<int, int64_t> failures;  // of guards, by index
  int frames = 0;                   // of Python functions that the trace went through
  Watched watched;
  // Drops the references to objects that others own as well: the variant then knows them by weak references alone.
  void let_go();
  // Ends where the next call may get by, or warned of what torch may warn of only once: the next call is traced again.
  bool passing = false;
  std::vector<Warning> warnings;  // that eager gives in each call
};

struct Segment {
  Object code;  // keeps the key's pointer
  int position = 0;
  std::vector<std::shared_ptr<Variant>> variants;  // the last hit first
  int64_t gone = 0;                                // variants that were, and whose objects are no more
  ValueHistory history;
  int passing = 0;              // variants that were
  std::vector<Warning> warned;  // in some trace
  Reason skipped;               // CPython runs what follows, for this reason
};

class Captured {
 public:
  Captured(Object wrapped, Options options, std::string name, bool fullgraph);

  // What the evaluation hook does with the first frame of a call, and with frames that a break's instruction calls.
  PyObject* enter(PyThreadState* t, Frame* f, Gain* gain);
  // The frame as it is; what it calls is captured.
  PyObject* run_with_captured_calls(PyThreadState* t, Frame* f, Gain* gain);

  CaptureReport report() const;
  void reset();
  void fall_back(const std::string& reason) { eager_calls_.count(name_, reason); }
  // Counts the calls that ran eager for this reason; nullptr if no call did.
  int64_t* fallbacks_for(const std::string& reason) { return eager_calls_.counter(reason); }
  PyObject* wrapped() const { return wrapped_.get(); }
  const std::string& name() const { return name_; }
  const Options& options() const { return options_; }
  std::vector<const Segment*> segments() const;  // until the next call
  int64_t calls = 0;
  StepAside aside;

  int traverse(visitproc visit, void* arg) const;
  void clear();

 private:
  struct Ready {
    std::shared_ptr<Variant> variant;
    std::vector<Object> outputs;
    std::string failed;             // the graph could not be run; nothing was written
    bool refused = false;           // by Vesta: it never can
    std::vector<Warning> warnings;  // of this run
    std::vector<Object> held;
  };
  PyObject* drive(PyThreadState* t, Frame* f, Gain* gain);
  std::shared_ptr<Segment> segment(PyCodeObject* code, int position);
  // A variant that serves this frame, its graph run; none: `why` is the difference to the last hit.
  bool find(Segment& s, Frame* f, Ready& ready, CaptureDifference& why);
  bool try_variant(Variant& v, Frame* f, Ready& ready, CaptureDifference& why);
  std::shared_ptr<Variant> capture(PyThreadState* t, Frame* f, int position, Segment& s, std::string& raises,
                                   std::vector<Warning>& lost);
  // False with an error set.
  bool leave(Frame* f, const Ready& ready, PyObject** result);

  Object wrapped_;
  Options options_;
  std::string name_;
  Object checked_code_;  // that enters no compiler: the last one
  bool fullgraph_;
  std::map<std::pair<PyCodeObject*, int>, std::shared_ptr<Segment>> segments_;
  const std::shared_ptr<Segment>* last_ = nullptr;  // in segments_: what segment() returned last
  EagerCalls eager_calls_;
  std::vector<CaptureRecompile> recompiles_;
  int64_t hits_ = 0, misses_ = 0;
};

// One trace of the segment that begins in this frame, taken back again.
struct TraceResult {
  std::shared_ptr<Variant> variant;  // without its compiled graph
  TracedGraph graph;
  double trace_ms = 0;
  std::vector<int64_t> integers;  // what the symbolic ones were
  // If there is none: trace again and stop before this instruction of the root frame, or not at all (-1).
  int restart_at = -1;
  bool guessed = false;          // that this is far enough back
  bool asked_compiling = false;  // the program asked whether it is being compiled
  bool raised = false;           // it raised, and did not handle it
  BreakSite site;
  std::vector<Warning> warnings;
};
TraceResult trace_segment(PyThreadState* t, Frame* f, int position, const Tracer::Settings& settings);

// ---- the evaluation hook
// Captures the first frame of the calling thread that arrives while this lives, or what that frame calls.
class HookScope {
 public:
  enum class With { Capture, CapturedCalls };
  // `code`: only a frame of this code; nullptr: any. `gain` is added to.
  HookScope(Captured& captured, PyCodeObject* code, Gain* gain, With with = With::Capture);
  ~HookScope();
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

 private:
  friend PyObject* evaluation_hook(PyThreadState*, Frame*, int);
  Captured* captured_;
  PyCodeObject* code_;
  Gain* gain_;
  With with_;
  HookScope* outer_;
};
// Every frame of the thread goes to the tracer.
class TracerScope {
 public:
  explicit TracerScope(Tracer& tracer);
  ~TracerScope();
  TracerScope(const TracerScope&) = delete;
  TracerScope& operator=(const TracerScope&) = delete;

 private:
  Tracer* outer_;
};
// Of the calling thread; nullptr: none.
Tracer* tracing();

// The callable inside of a CapturedFunction (or of an object whose class's __call__ yields one); nullptr: it is none.
PyObject* wrapped_by_capture(PyObject* x);

}  // namespace vesta::capture
