// The object behind a vesta._C.CapturedFunction, as its calls see it: the original callable, counters, and a receiver
// for the first frame of a compiled call. What happens with that frame is the business of a derived class.
#pragma once

#include <string>

#include "base/totals.h"
#include "capture/entry/compile_account.h"
#include "capture/entry/eager_calls.h"
#include "capture/python/hook/hook.h"
#include "capture/python/object.h"
#include "capture/python/wrapper/profit_by_signature.h"
#include "capture/python/wrapper/step_aside.h"
#include "capture/python/wrapper/warm_up.h"

namespace vesta::capture {

class CapturedCallable {
 public:
  CapturedCallable(Object wrapped, std::string name) : wrapped_(std::move(wrapped)), name_(std::move(name)) {}
  virtual ~CapturedCallable() = default;
  CapturedCallable& operator=(CapturedCallable&&) = delete;  // neither copied nor moved

  // Runs the first frame of a compiled call, as an evaluation hook does. Adds to `gain` what the call had from it.
  virtual PyObject* enter(PyThreadState* t, Frame* f, Gain* gain) = 0;
  // Compiles what such a call needs, runs nothing of it and ends the frame by end_warm_up().
  virtual PyObject* warm(PyThreadState* t, Frame* f, WarmUp& out) = 0;
  // Forgets every compiled variant and all counts.
  virtual void reset() = 0;
  // For Python's garbage collector.
  virtual int traverse(visitproc visit, void* arg) const = 0;
  virtual void clear() = 0;

  PyObject* wrapped() const { return wrapped_.get(); }
  const std::string& name() const { return name_; }
  // Counts a call that runs eager, and logs the first one of each reason.
  void fall_back(const std::string& reason) { eager_calls_.count(name_, reason); }
  // The counter of such calls; nullptr if no call ran eager for this reason.
  totals::Tally* fallbacks_for(const std::string& reason) { return eager_calls_.counter(reason); }

  totals::Tally calls{totals::of(totals::Count::Calls)};
  CompileAccount account;
  StepAside aside;
  ProfitBySignature profit;

 protected:
  Object wrapped_;
  const std::string name_;
  EagerCalls eager_calls_;
};

}  // namespace vesta::capture
