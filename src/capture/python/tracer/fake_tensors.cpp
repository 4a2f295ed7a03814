#include "capture/python/tracer/fake_tensors.h"

#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture {
namespace {

void apply_mark(PyObject* tensor, PyObject* name, bool value, std::vector<bool>& dynamic) {
  const Object set = Object::take(PyObject_GetAttr(tensor, name));
  if (set && PyAnySet_Check(set.get())) {
    for (size_t d = 0; d < dynamic.size(); ++d) {
      const Object number = Object::take(PyLong_FromSize_t(d));
      if (number && PySet_Contains(set.get(), number.get()) == 1) dynamic[d] = value;
    }
  }
  PyErr_Clear();
}

// torch._dynamo.mark_dynamic, mark_static and their like leave sets of dimensions as attributes of a tensor. Changes
// which dimensions are to be symbolic as the tensor is marked. A mark as dynamic wins.
void apply_marks(PyObject* tensor, std::vector<bool>& dynamic) {
  static PyObject* const as_dynamic[] = {"_dynamo_dynamic_indices"_name, "_dynamo_weak_dynamic_indices"_name,
                                         "_dynamo_unbacked_indices"_name};
  apply_mark(tensor, "_dynamo_static_indices"_name, false, dynamic);
  for (PyObject* name : as_dynamic) apply_mark(tensor, name, true, dynamic);
}

}  // namespace

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
  Object items = mapped_items(x, [&](PyObject* item) {
    return fake_of(item) == item ? wrap_items(item, depth - 1) : Object::share(fake_of(item));
  });
  return !items || items.get() == x || PyList_Check(x) ? items : Object::take(PyList_AsTuple(items.get()));
}

PyObject* FakeTensors::track(PyObject* real, int source) {
  if (is_traced(real)) return Py_NewRef(real);  // the trace itself has stored it there
  // The guard that every tensor gets, checked by GuardProgram::holds. Its dtype, sizes and strides are checked when the
  // graph gets it as an input (InputCheck::accepts). The source of a module's parameter is an item of _parameters.
  t_.guards.add(Check::Type, source, reinterpret_cast<PyObject*>(Py_TYPE(real)));
  t_.sources.know(real, source);
  if (!is_base_tensor(real)) {
    // As each nn.Parameter: it stays real, and the first operator that takes it makes it an input of the graph
    // (Recorder::alias_of).
    t_.guards.add_special_methods(Py_TYPE(real));
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
