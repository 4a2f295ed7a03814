#include "capture/python/tracer/made_objects.h"

#include "capture/python/tracer/trace.h"

namespace vesta::capture {

void MadeObjects::add(PyObject* x) {
  made_.try_emplace(x, Object::share(x));
  if (t_.progress.place().frame == t_.root && PyCell_Check(x)) t_.variables.move_into_cell(x);
}

void MadeObjects::add_result(PyObject* x) { born_.try_emplace(x, t_.progress.root_count() - 1); }

void MadeObjects::add_generator(PyObject* x) { born_.insert_or_assign(x, t_.progress.root_count() - 1); }

}  // namespace vesta::capture
