#include "capture/python/tracer/trace.h"

#include <algorithm>

#include "capture/python/gil/gil_hold.h"
#include "capture/python/tensors/tensors.h"

namespace vesta::capture {

Trace::Trace(Frame* frame, const TraceSettings& given) : root(frame), settings(given) {
  sources.keep(reinterpret_cast<PyObject*>(code_of(root)));
}

PyObject* Trace::graph_break(Break why, std::string_view first, std::string_view second) {
  return progress.graph_break(ended() ? Reason() : reason_for(why, first, second));
}

bool Trace::may_run_operator() {
  if (gil_is_held()) return true;
  // Objects that the trace made have no source: no other thread knows them.
  const auto is_old = [&](const UndoLog::Entry& e) { return sources.find(e.target.get()) >= 0; };
  return std::ranges::none_of(log.entries(), is_old) || (graph_break(Break::OperatorAfterWrite), false);
}

int Trace::fail(Break why, std::string_view first, std::string_view second) {
  graph_break(why, first, second);
  return -1;
}

bool may_operate_on(Trace& t, std::initializer_list<PyObject*> operands) {
  return gil_is_held() || std::ranges::none_of(operands, is_tensor) || t.may_run_operator();
}

}  // namespace vesta::capture
