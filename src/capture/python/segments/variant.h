// A segment of a captured callable and its variants: the part of a frame between two graph breaks, by its place in the
// code, with one variant for each trace of it that was compiled.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "capture/python/epilogue/epilogue.h"
#include "capture/python/frame/warnings.h"
#include "capture/python/guards/guard_program.h"
#include "capture/python/guards/watched.h"
#include "capture/python/segments/tier_turns.h"
#include "capture/python/tensors/compile.h"
#include "capture/python/tracer/tracer.h"
#include "capture/python/wrapper/profit_by_signature.h"
#include "vesta/capture_report.h"

namespace vesta::capture {

// One trace of a segment, compiled.
struct Variant {
  Variant(GuardProgram g, Epilogue e) : guards(std::move(g)), epilogue(std::move(e)) {}
  GuardProgram guards;
  Epilogue epilogue;
  TorchState entry, leave;  // torch's state at both ends
  CompiledGraph graph;      // without an executable, there is nothing to run
  struct Input {
    int source = -1;               // a register; or, if negative,
    PyObject* constant = nullptr;  // this tensor
    bool is_number = false;        // a number, of which a tensor is made
  };
  std::vector<Input> inputs;
  std::vector<Object> constants;   // owns the constants of the inputs
  std::vector<bool> require_grad;  // by input, where gradients are recorded
  std::vector<int> integers;       // registers of the graph's integer inputs
  CaptureVariant report;
  std::string name;                 // of its segment in events and profiles: "attend:12", function and line
  int64_t id = 0, segment = 0;      // in events
  Reason stop;                      // why it ends where it does, if the epilogue is a break
  std::map<int, int64_t> failures;  // how often each guard failed, by its index
  int frames = 0;                   // of Python functions that the trace went through
  Watched watched;
  // Takes the result of a compile in the background. False: it is still running. Throws what the compile threw.
  bool take_compiled();
  TierTurns turns;  // while the compile goes on
  // Every list in which the variant holds references.
  std::vector<std::vector<Object>*> holders();
  // Drops the references to objects that others own as well: the variant then knows them by weak references alone.
  void let_go();
  // The next call traces again: it may get past the break that ends this variant, or torch may not repeat a warning.
  bool passing = false;
  std::vector<Warning> warnings;  // that eager gives in each call
  // How long a call waited for its compile before that went on in the background; negative: the account has all of it.
  double waited_ms = -1;
};

// Compiled runs of a part of a frame, measured against uncompiled ones.
struct Measured {
  static constexpr int kRunsBefore = 4;
  ProfitBySignature profit{kRunsBefore};
  int64_t runs = 0;        // that may count
  int64_t uncompiled = 0;  // runs as it is
  std::string slower;      // what the last measurement found if compiled runs were slower: both times
};

// For a variant whose compile is still running. Whether its calls into ATen, which serve until there is machine code,
// are ready; and whether the next call runs them.
bool is_early_ready(Variant& v);
bool runs_early(Variant& v);

struct Segment {
  Object code;  // keeps the code of its key alive
  int position = 0;
  int64_t id = 0;                                  // in events
  std::vector<std::shared_ptr<Variant>> variants;  // the last hit first
  int64_t gone = 0;                                // variants that were dropped because an object of theirs died
  ValueHistory history;
  static constexpr int kMostPassing = 4;
  int passing = 0;                 // how many variants were to be traced again at the next call
  int late = 0;                    // how many traces were given up for lack of time or memory
  double enough_ms = 0;            // an upper estimate of the deadline that the whole trace needs; 0: unknown
  std::vector<Warning> warned;     // by any trace
  double capture_ms = 0;           // that the last capture took
  bool held_back = false;          // a capture was put off, because recompiles take too long
  std::set<std::string> failures;  // of Vesta's own in traces that came to nothing, at most kMostFailures
  static constexpr size_t kMostFailures = 8;
  // Of a segment that is one of several in a call, and of the frame from a segment that runs uncompiled to its end
  // (segment_turn.h).
  Measured itself, rest;
  Reason skipped;          // if set, CPython runs the rest of the frame, for this reason
  int64_t look_again = 0;  // the number of calls after which a skipped segment is tried again; 0: never
  std::string apart;       // if set: why its parts are compiled apart (TraceSettings::apart)
};

}  // namespace vesta::capture
