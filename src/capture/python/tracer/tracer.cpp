#include "capture/python/tracer/tracer.h"

#include "capture/python/tracer/last_references.h"

namespace vesta::capture {

bool Tracer::before(Frame* f, int position) {
  if (!trace.progress.begin_instruction(f, position)) return false;
  check_dropped_references(trace, f, position);
  return true;
}

int Tracer::update_dict(PyObject* dict, PyObject* mapping) {
  const Object items = trace.containers.unpacked(mapping);
  return items ? trace.tracker.finish_status(Operations::update_dict(dict, items.get())) : -1;
}

int Tracer::merge_keywords(PyObject* callable, PyObject* dict, PyObject* mapping) {
  const Object items = trace.containers.unpacked(mapping);
  return items ? trace.tracker.finish_status(Operations::merge_keywords(callable, dict, items.get())) : -1;
}

}  // namespace vesta::capture
