// Whether the trace may run a torch operator now. Where torch's operators release the GIL in a trace (gil_is_held() is
// false), another thread would see what the trace has written to the program's objects, and not yet undone.
#pragma once

#include "capture/python/sources/source.h"
#include "capture/python/tracer/undo_log.h"

namespace vesta::capture {

// False: the trace has to end before the operator (Break::OperatorAfterWrite).
bool may_run_operator(const UndoLog& log, const SourceTable& sources);

}  // namespace vesta::capture
