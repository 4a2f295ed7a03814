#include "capture/python/tracer/operator_after_write.h"

#include <algorithm>

#include "capture/python/gil/gil_hold.h"

namespace vesta::capture {

bool may_run_operator(const UndoLog& log, const SourceTable& sources) {
  if (gil_is_held()) return true;
  // Objects that the trace made have no source: no other thread knows them.
  return std::ranges::none_of(log.entries(),
                              [&](const UndoLog::Entry* e) { return sources.find(e->target.get()) >= 0; });
}

}  // namespace vesta::capture
