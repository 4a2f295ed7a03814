#include "capture/python/tracer/trace.h"
#include "capture/python/tensors/tensors.h"

namespace vesta::capture {

Trace::Trace(Frame* frame, const TraceSettings& given) : root(frame), settings(given) {
  sources.keep(reinterpret_cast<PyObject*>(code_of(root)));
}

PyObject* Trace::graph_break(Break why, std::string_view first, std::string_view second) {
  return progress.graph_break(ended() ? Reason() : reason_for(why, first, second));
}

int Trace::fail(Break why, std::string_view first, std::string_view second) {
  graph_break(why, first, second);
  return -1;
}

}  // namespace vesta::capture
