// From a frame to a new variant of a segment: traces until a trace gives a graph, each one shorter than the one before
// or with other settings, then compiles that graph. The frame and the program's objects are afterwards as they were.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "capture/python/segments/captured.h"

namespace vesta::capture {

struct SegmentCapture {
  std::shared_ptr<Variant> variant;
  // Without a variant: the exception that the program itself raises, with fullgraph=True; if empty, segment.skipped
  // says why CPython must run the frame.
  std::string raises;
  Reason late;            // if set: the trace was given up for lack of time or memory, and another call may try again
  int64_t operators = 0;  // if it was given up for lack of time: what the trace had recorded; 0: unknown
};

// `first`: no part of the outermost call has run yet. Only then the program may be told that it is compiled, and only
// if the graph serves the whole call: parts that run eager are told no, and the answers of one call must agree. `end`:
// the caller waits no longer. A compile that has a graph then goes on in the background (CompiledGraph::pending).
// `lost`: warnings of traces that came to nothing. Those that the variant repeats are taken out again.
SegmentCapture capture_segment(PyThreadState* t, Frame* f, Segment& segment, const Captured& captured, bool first,
                               std::chrono::steady_clock::time_point end, std::vector<Warning>& lost);

// The compile of a variant failed. From now on the segment is traced with its parts apart (Segment::apart), so that one
// of them does not keep the others from being compiled; or it is left to Python, if it has no parts.
void after_failed_compile(Segment& segment, const Variant& failed, const Captured& captured, const std::string& why);

// A compile was predicted not to be worth its time (NotWorthIt): the segment is left to Python, until more calls have
// come than the prediction expected.
void after_refused_compile(Segment& segment, const Captured& captured, const std::string& why);
// Whether it is time to look again at a segment that is skipped for that reason, or for lack of time. If so, it is no
// longer skipped.
bool is_worth_another_look(Segment& segment, const Captured& captured);

}  // namespace vesta::capture
