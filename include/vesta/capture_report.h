// What explain(f) shows of a captured Python function: plain structs, filled by src/capture/python and read by
// python/vesta/explain.py (python/bindings exposes every field read-only, under the same names).
// Texts are for people; nothing parses them. Strings are UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "vesta/report.h"

namespace vesta {

// A place in the user's program. Python reads the text of the line itself (linecache), so that no file is opened here.
struct UserLine {
  std::string file;      // co_filename; empty: no place is known
  int32_t line = 0;      // 1-based
  std::string function;  // co_qualname
};

// A fact that a trace relied on.
struct CaptureGuard {
  std::string kind;  // one of: type identity constant presence length keys members class code tensor
  std::string
      text;  // as Python reads: "type(x) is Tensor", "x.size(0) == 8", "2*x.size(0) >= 16", "self.training is False"
  UserLine where;      // the line that asked; for a fact of an argument that nobody asked for: the def line
  int64_t failed = 0;  // how often it was the one that missed
};

// Why a trace ended before its frame did.
struct CaptureBreak {
  UserLine where;  // the line of the instruction
  std::vector<UserLine>
      stack;                // where it is in an inlined call: from the compiled frame's line down to `where`'s caller
  std::string instruction;  // the opcode: "CALL"
  std::string name;         // of the kind, "print": the heading in docs/breaks.md
  std::string reason;       // "calls print, which writes to a file"
  std::string hint;         // what to do, one clause
  int64_t count = 0;        // times the instruction was executed outside a graph
};

struct OpCount {
  std::string op;  // "aten.mm"
  int64_t count = 0;
};

// One trace of a segment, valid while its guards hold.
struct CaptureVariant {
  std::vector<OpCount> ops;               // of the graph, in order of first use; empty: there is no graph
  std::optional<CompileReport> compiled;  // what the graph became; none: no graph, or it runs as eager operators
  std::vector<CaptureGuard> guards;       // in the order of the check
  std::vector<std::string> effects;       // replayed after the graph: "self.counter", "cache['k']", "list.append on x"
  std::string end;                        // "return", "break", "raise" or "yield"
  std::optional<CaptureBreak> stop;       // if end is "break"
  std::vector<StageTime> stages;          // capture's own: "trace", "guards", "exit" (compiled->stages has the rest)
  double total_ms = 0;                    // all of it, from the miss to the first hit
  int64_t hits = 0;
};

// The code from one offset of a code object on: offset 0 is the function, others go on after a break.
struct CaptureSegment {
  UserLine where;                        // the first instruction's line
  int32_t offset = 0;                    // in code units
  std::vector<CaptureVariant> variants;  // in the order in which they were made
  std::string
      skipped;  // why no more of it is compiled and CPython runs it (too many variants, too cheap, generator), or empty
  std::string skipped_name;  // of the kind, as CaptureBreak::name; empty if skipped is
};

// What a call has other than a variant wants.
struct CaptureDifference {
  std::string guard;  // the text of what failed
  std::string was;    // "8", "torch.float32"; empty where the guard says it all
  std::string now;    // "9"
  UserLine where;     // the guard's
};

// A miss that made a new variant (or, past the limit, an eager call); of several variants the difference is to the one
// that was hit last.
struct CaptureRecompile : CaptureDifference {
  UserLine segment;  // where of the segment
  double ms = 0;     // what the new variant took; 0: none was made
};

struct CaptureReport {
  std::string name;                      // the name given to capture(), else co_qualname
  UserLine where;                        // def line; empty for what has no Python code
  std::vector<CaptureSegment> segments;  // by code object, then by offset
  std::vector<CaptureRecompile> recompiles;
  std::vector<Fallback> fallbacks;  // calls (or rests of calls) that ran eager, by reason
  int64_t calls = 0;
  int64_t aside = 0;   // of them: run as they are, because a compile gains nothing
  int64_t hits = 0;    // segments entered through guards that held
  int64_t misses = 0;  // and those that traced, or ran eager
};

}  // namespace vesta
