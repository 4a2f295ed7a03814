// Calls that gain nothing from compiled code: guards and a graph of one call into ATen only add to eager's time. Such a
// callable runs as it is, until a call has another signature or the next check is due. Only time depends on what is
// decided here: eager is right for every call.
#pragma once

#include <cstdint>
#include <string>

#include "base/totals.h"
#include "capture/python/wrapper/call_signature.h"

namespace vesta::capture {

// What one call had from compiled segments.
struct Gain {
  bool entered = false;   // a frame was captured
  bool passing = false;   // it compiled, or ran eager for a reason that may pass: look again at the next call
  int64_t kernels = 0;    // run
  int64_t operators = 0;  // of ATen, called by graphs
  int64_t frames = 0;     // of Python functions that graphs replaced
  int64_t segments = 0;   // that ran compiled
  bool compiled = false;  // a segment was traced and compiled
  double compile_ms = 0;  // spent on that
  bool for_now = false;   // a segment ran eager because of a mode, a stance or a compile in the background
  bool pending = false;   // of these, the compile
  bool trains = false;    // a graph records gradients
  bool on_gpu = false;    // a graph runs on a GPU
  bool measured = false;  // a part of it was measured, compiled against uncompiled: its own time tells nothing
  bool alone = false;     // set before the call: it is measured itself, so its parts are not
  std::string fallback;   // why all calls run eager, if they do
  bool is_worth_it() const;
};

class StepAside {
 public:
  // Decides after a call with this gain. `fallbacks`: the counter of calls that run eager for gain.fallback, or
  // nullptr.
  void learn(const Gain& gain, const CallArguments& call, totals::Tally* fallbacks);
  void forget() { on_ = false; }
  // Whether a call runs the original as it is. If so, it is counted.
  bool wants(const CallArguments& call) {
    if (!on_ || --until_check_ <= 0 || !signature_.is_of(call)) return false;
    ++calls;
    if (fallbacks_) ++*fallbacks_;
    return true;
  }
  totals::Tally calls{totals::of(totals::Count::Aside)};  // that ran the original

 private:
  bool on_ = false;
  totals::Tally* fallbacks_ = nullptr;
  int calls_to_check_ = 0, until_check_ = 0;
  CallSignature signature_;
};

}  // namespace vesta::capture
