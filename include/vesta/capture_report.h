// The report of explain(f) on a captured Python function, as plain structs. src/capture/python fills them,
// python/bindings exposes every field read-only under the same name, and python/vesta/explain.py prints them. Texts are
// UTF-8 and meant for people: no code parses them. No field refers to an object of the program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "vesta/activation_report.h"
#include "vesta/report.h"

namespace vesta {

// A place in the user's program. Python reads the text of the line itself (linecache); C++ opens no source file.
struct UserLine {
  std::string file;      // co_filename; empty: the place is not known
  int32_t line = 0;      // 1-based
  std::string function;  // co_qualname
};

// A fact that a trace relied on.
struct CaptureGuard {
  std::string kind;  // one of: type identity constant presence length keys members class code tensor
  std::string
      text;  // as Python reads: "type(x) is Tensor", "x.size(0) == 8", "2*x.size(0) >= 16", "self.training is False"
  UserLine where;      // the line that relied on it; the def line for a fact about an argument that no line relied on
  int64_t failed = 0;  // how often this guard was the first to fail
};

// Why a trace ended before its frame did: a graph break.
struct CaptureBreak {
  UserLine where;  // the line of the instruction
  std::vector<UserLine>
      stack;  // for an inlined call: the callers' lines, from the compiled frame's to that of the direct caller
  std::string instruction;  // the opcode: "CALL"
  std::string name;         // of this kind of break, "print": its heading in docs/breaks.md
  std::string reason;       // "calls print, which writes to a file"
  std::string hint;         // what the user can do, one clause
  int64_t count = 0;        // times the instruction was executed outside a graph
};

struct OpCount {
  std::string op;  // "aten.mm"
  int64_t count = 0;
};

// A step of a compiled graph: a kernel, a call into ATen, a check or a write to an input.
struct StepInfo {
  std::string name;  // of the kernel, as profilers show it, or of the operator: "aten::addmm"
  bool is_kernel = false;
  std::vector<std::string> ops;  // that the kernel computes, in order
  std::string dtype;             // of the first result of a call into ATen: "f32"
  std::string source;            // the line of a call into ATen, where it is known
  std::vector<int32_t> after;    // the earlier steps, by index, whose results it reads
  int64_t bytes = 0;             // that it reads and writes: of a kernel as the planner estimates them, of a call into
                                 // ATen those of its tensors; 0: not known
  int64_t flops = 0;  // of a product, convolution or attention, two for a multiplication and an addition; 0: not known
  double estimated_us = 0;   // of a kernel, likewise
  int64_t arena_bytes = -1;  // of the arena in use at this step; -1: it depends on the sizes of the call
  int64_t held_bytes = -1;   // by the call at this step: arena, results of steps, outputs; -1: likewise
};

// One trace of a segment. It is valid while its guards hold.
struct CaptureVariant {
  int64_t id = 0;            // its id in events
  std::vector<OpCount> ops;  // operators of the graph, in order of first use; empty: there is no graph
  std::optional<CompileReport>
      compiled;  // what the graph became; nullopt: there is no graph, or its operators run eager
  // Where gradients are recorded: the backward halves that have run, and what the forward half saves for them.
  std::vector<CompileReport> backward;
  std::vector<std::string> backward_failures;  // of compiles: such passes run as calls of their operators
  ActivationReport activations;
  bool trains = false;
  bool pending = false;  // the compile is still running in the background, and calls run in tier 0 or 1
  // How calls run. 0: in Python. 1: as calls into ATen without Python code between them. 2: with machine code. 3: with
  // machine code that was tuned.
  int32_t tier = 0;
  // While the compile was running in the background: the hits that tier 1 served, and the least microseconds that a
  // call took from this graph on, in tier 0 and in tier 1; 0: not measured.
  int64_t early_hits = 0;
  double python_us = 0, early_us = 0;
  std::vector<CaptureGuard> guards;  // in the order in which they are checked
  std::vector<std::string> effects;  // replayed after the graph: "self.counter", "cache['k']", "list.append on x"
  std::string end;                   // "return", "break", "raise" or "yield"
  std::optional<CaptureBreak> stop;  // if end is "break"
  std::vector<StepInfo> steps;       // that a call of the graph runs, in order; without gradients only
  int outputs = 0;                   // how many tensors a call of the graph returns, including views
  int64_t output_bytes = -1;         // of the tensors that a call makes for its caller; -1: it depends on the sizes
  std::vector<StageTime> stages;     // capture's own: "trace" (compiled->stages has the rest)
  double total_ms = 0;               // the whole time from the miss to the first hit
  int64_t hits = 0;
};

// The code of a code object from one offset on. Offset 0 is the function; other segments start after a graph break.
struct CaptureSegment {
  UserLine where;                        // the first instruction's line
  int32_t offset = 0;                    // in code units
  std::vector<CaptureVariant> variants;  // in the order in which they were made
  std::string skipped;  // why CPython runs it and nothing more of it is compiled (too many variants, too cheap,
                        // generator), or empty
  std::vector<std::string> failures;  // of Vesta's own in traces of it; another trace may serve its calls all the same
  // Why it runs uncompiled for some values of the local variables, though it could be compiled: "3.1 us compiled and
  // 1.2 us uncompiled"; empty: it does not. The same for all of the frame from here on.
  std::string slower, rest_slower;
  int64_t uncompiled = 0, rest_uncompiled = 0;  // how often it ran uncompiled, because of that or to be measured
  std::string skipped_name;  // the name of that kind of break, as in CaptureBreak::name; empty if `skipped` is empty
};

// How a call differs from what a variant was compiled for.
struct CaptureDifference {
  std::string guard;  // the text of the guard that failed
  std::string was;    // the value in the variant: "8", "torch.float32"; empty where the guard's text has it
  std::string now;    // the value in the call: "9"
  UserLine where;     // the guard's line
};

// A miss that made a new variant or, beyond the limit of variants, an eager call. With several variants, the difference
// is to the one that was hit last.
struct CaptureRecompile : CaptureDifference {
  UserLine segment;  // the first line of the segment
  double ms = 0;     // time to make the new variant; 0: none was made
};

struct CaptureReport {
  std::string name;                      // the name given to capture(), otherwise co_qualname
  UserLine where;                        // def line; empty for a callable without Python code
  std::vector<std::string> only;         // the modules that are compiled; empty: nothing was named
  std::vector<CaptureSegment> segments;  // ordered by code object, then by offset
  std::vector<CaptureRecompile> recompiles;
  std::vector<Fallback> fallbacks;  // calls, or the rests of calls, that ran eager, by reason
  int64_t calls = 0;
  double call_us = 0;  // the mean time of a call since the last compile, in microseconds; 0: none was measured
  int64_t aside = 0;   // of `calls`: those that ran uncompiled because a compile gains nothing
  int64_t hits = 0;    // entries of a segment with a variant whose guards held
  int64_t misses = 0;  // entries of a segment that were traced or ran eager
};

}  // namespace vesta
