#include "capture/python/tracer/operator_after_write.h"

#include <algorithm>

#include "capture/python/gil/gil_hold.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture {

bool may_run_operator(Trace& t) {
  if (gil_is_held()) return true;
  // Objects that the trace made have no source: no other thread knows them.
  const auto is_old = [&](const UndoLog::Entry* e) { return t.sources.find(e->target.get()) >= 0; };
  return std::ranges::none_of(t.log.entries(), is_old) || (t.graph_break(Break::OperatorAfterWrite), false);
}

bool may_operate_on(Trace& t, std::initializer_list<PyObject*> operands) {
  return gil_is_held() || std::ranges::none_of(operands, is_tensor) || may_run_operator(t);
}

}  // namespace vesta::capture
