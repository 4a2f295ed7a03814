#include "capture/python/tracer/fake_tensors.h"

#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/marks.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture {

PyObject* FakeTensors::real_of(PyObject* x) const {
  const auto it = real_of_.find(x);
  return it == real_of_.end() ? nullptr : it->second;
}

PyObject* FakeTensors::fake_of(PyObject* x) const {
  const auto it = fake_of_.find(x);
  return it == fake_of_.end() ? x : it->second;
}

PyObject* FakeTensors::held_by_program(PyObject* x) const {
  PyObject* real = real_of(x);
  return real ? real : x;
}

PyObject* FakeTensors::wrap(PyObject* x) const {
  if (!x) return x;
  PyObject* fake = fake_of(x);
  if (fake == x) return x;
  Py_INCREF(fake);
  Py_DECREF(x);
  return fake;
}

Object FakeTensors::wrap_items(PyObject* x, int depth) const {
  if (depth == 0 || (!PyList_Check(x) && !PyTuple_Check(x))) return Object::share(x);
  Object copy;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(x, i);
    const Object seen = fake_of(item) == item ? wrap_items(item, depth - 1) : Object::share(fake_of(item));
    if (!seen) return {};
    if (seen.get() == item) continue;
    if (!copy) copy = Object::take(PySequence_List(x));
    if (!copy || PyList_SetItem(copy.get(), i, Py_NewRef(seen.get())) < 0) return {};
  }
  if (!copy) return Object::share(x);
  return PyList_Check(x) ? copy : Object::take(PyList_AsTuple(copy.get()));
}

PyObject* FakeTensors::track(PyObject* real, int source) {
  if (is_traced(real)) return Py_NewRef(real);  // the trace itself has stored it there
  // Its dtype, sizes and strides are checked with the graph's other inputs (Executable::accepts).
  t_.guards.add(Check::Type, source, reinterpret_cast<PyObject*>(Py_TYPE(real)));
  t_.sources.know(real, source);
  if (!is_base_tensor(real)) {
    t_.guards.add_tensor_class(Py_TYPE(real));
    return t_.ended() ? nullptr : Py_NewRef(real);
  }
  if (PyObject* fake = fake_of(real); fake != real) return Py_NewRef(fake);
  const SourceKind kind = t_.sources[source].kind;
  PyObject* fake =
      add_tensor_input(real, t_.guards.source_text(source), kind != SourceKind::Local, symbolic_sizes(real, source));
  if (!fake) return t_.graph_break(trace_failure());
  t_.sources.keep(fake);
  fake_of_[real] = fake;
  real_of_[fake] = real;
  return fake;
}

std::vector<bool> FakeTensors::symbolic_sizes(PyObject* real, int source) {
  const TraceSettings& settings = t_.settings;
  if (!settings.history || !are_strided(real) || t_.sources[source].kind == SourceKind::Constant) return {};
  const std::vector<int64_t> sizes = sizes_of(real);
  std::vector<bool> dynamic =
      settings.history->shapes.try_emplace(t_.guards.history_key(source)).first->second.add(sizes);
  if (settings.dynamic) dynamic.assign(sizes.size(), *settings.dynamic);
  if (!settings.symbols) dynamic.assign(sizes.size(), false);
  apply_marks(real, dynamic);
  return dynamic;
}

bool FakeTensors::lift(PyObject* tensor) {
  if (is_traced(tensor) || t_.sources.find(tensor) < 0) return true;
  if (lift_tensor(tensor)) return true;
  t_.graph_break(trace_failure());
  return false;
}

}  // namespace vesta::capture
