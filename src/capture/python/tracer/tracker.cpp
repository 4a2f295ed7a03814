#include "capture/python/tracer/tracker.h"

#include "capture/python/functions/functions.h"
#include "capture/python/functions/plain_objects.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/symbolic_scalar.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/class_sets.h"
#include "capture/python/values/classes.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture {
namespace {

// A longer trace unrolls a Python loop: compiling it takes longer than running it.
constexpr int64_t kMostOperators = 20'000;

// Only the class's C code sees what its objects hold: no guard can.
bool is_closed(PyTypeObject* type) {
  type = c_base(type);
  if (!type) return false;
  if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException))) return true;
  return is_in(type, ClassSet::Closed);
}

// A number or text of a subclass: its value never changes.
bool is_derived_scalar(PyObject* x) {
  return PyLong_Check(x) || PyFloat_Check(x) || PyUnicode_Check(x) || PyBytes_Check(x) || PyComplex_Check(x);
}

// A class statement in a function made it: a guard on it would serve one call, and keep the class alive.
bool is_local_class(PyObject* x) {
  if (!PyType_Check(x) || !(reinterpret_cast<PyTypeObject*>(x)->tp_flags & Py_TPFLAGS_HEAPTYPE)) return false;
  return utf8_of(reinterpret_cast<PyHeapTypeObject*>(x)->ht_qualname).find("<locals>") != std::string_view::npos;
}

// Immutable objects that compare by value without Python code.
bool is_value(PyObject* x) { return PyRange_Check(x) || is_of(x, ClassSet::TensorProperties) || is_numpy_scalar(x); }

}  // namespace

bool is_singleton(PyObject* x) {
  if (PyType_Check(x) || PyModule_Check(x) || PyCFunction_Check(x) || PyCode_Check(x)) return true;
  PyTypeObject* type = Py_TYPE(x);
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyGetSetDescr_Type ||
      type == &PyMemberDescr_Type || type == &PyClassMethodDescr_Type || type == &PyProperty_Type ||
      type == &PyStaticMethod_Type || type == &PyClassMethod_Type || is_method_wrapper(x))
    return true;
  return is_in(type, ClassSet::Singletons) || is_in(Py_TYPE(type), ClassSet::EnumMeta);
}

bool is_guarded_when_tracked(PyObject* x) { return is_singleton(x) || is_value(x); }

PyObject* Tracker::track_constant(PyObject* x) {
  if (is_scalar(x)) return Py_NewRef(x);
  const int source = t_.sources.constant(x);
  if (is_tensor(x)) return t_.tensors.track(x, source);
  t_.sources.know(x, source);
  return track_self(x) ? Py_NewRef(x) : nullptr;
}

void Tracker::note_constant(PyObject* x) {
  if (t_.sources.find(x) < 0) Py_XDECREF(track_constant(x));
}

int Tracker::constant_source(PyObject* x) {
  if (t_.sources.find(x) < 0) t_.sources.know(x, t_.sources.constant(x));
  return t_.sources.find(x);
}

bool Tracker::track_self(PyObject* f) {
  Object self;
  if (PyCFunction_Check(f))
    self = Object::share(reinterpret_cast<PyCFunctionObject*>(f)->m_self);
  else if (is_method_wrapper(f))
    self = Object::take(PyObject_GetAttrString(f, "__self__"));
  if (!self || is_scalar(self.get()) || t_.sources.find(self.get()) >= 0) return true;
  return static_cast<bool>(Object::take(track_constant(self.get())));
}

bool Tracker::track_slice(PyObject* x, int source) {
  static PyObject* const names[] = {"start"_name, "stop"_name, "step"_name};
  auto* s = reinterpret_cast<PySliceObject*>(x);
  PyObject** const places[] = {&s->start, &s->stop, &s->step};
  for (int i = 0; i < 3; ++i) {
    PyObject* part = *places[i];
    if (!is_scalar(part)) return t_.graph_break(Break::SliceOfObjects), false;
    const auto offset = reinterpret_cast<char*>(places[i]) - reinterpret_cast<char*>(x);
    t_.guards.add(Check::Equals, t_.sources.add(SourceKind::Member, source, static_cast<int>(offset), names[i]), part);
  }
  return true;
}

PyObject* Tracker::track(PyObject* x, int source) {
  if (PyLong_CheckExact(x)) return t_.numbers.track_int(x, source);
  if (is_scalar(x)) {
    if (x != Py_None && !PyBool_Check(x) && x != Py_Ellipsis && x != Py_NotImplemented)
      return t_.numbers.track_scalar(x, source);
    t_.guards.add(Check::Is, source, x);
    return Py_NewRef(x);
  }
  if (const int known = t_.sources.find(x); known >= 0 && known != source) {
    if (t_.sources[known].kind == SourceKind::Constant)
      t_.guards.add(Check::Is, source, x);
    else
      t_.guards.add(Check::Same, source, nullptr, known);
    return t_.tensors.wrap(Py_NewRef(x));
  }
  if (is_tensor(x)) return t_.tensors.track(x, source);
  if (t_.sources[source].kind == SourceKind::Local && is_local_class(x)) return t_.graph_break(Break::LocalClassUsed);
  if (t_.sources[source].kind == SourceKind::Local && PyModule_Check(x) && !is_imported(x))
    return t_.graph_break(Break::ModuleNotInTable);
  if (is_singleton(x)) {
    t_.guards.add(Check::Is, source, x);
    return track_constant(x);
  }
  if (is_value(x)) {
    t_.guards.add(Check::Equals, source, x);
    return Py_NewRef(x);
  }
  if (PyFunction_Check(x)) {
    t_.functions.guard_code(x, source);
    t_.sources.know(x, source);
    t_.functions.guard(x);
    return Py_NewRef(x);
  }
  if (is_symbolic(x)) return t_.graph_break(Break::ForeignSymbol);
  if (t_.containers.is_exact() && is_c_iterator(x)) return t_.graph_break(Break::OuterIterator);
  t_.guards.add(Check::Type, source, reinterpret_cast<PyObject*>(Py_TYPE(x)));
  t_.sources.know(x, source);
  if (is_derived_scalar(x) || t_.functions.is_constant(x)) t_.guards.add(Check::Is, source, x);
  if (PySlice_Check(x) && !track_slice(x, source)) return nullptr;
  if (PyTuple_Check(x)) t_.guards.add(Check::Length, source, nullptr, PyTuple_GET_SIZE(x));
  if (PyMethod_Check(x) && (!note(PyMethod_GET_SELF(x), t_.sources.add(SourceKind::MethodSelf, source)) ||
                            !note(PyMethod_GET_FUNCTION(x), t_.sources.add(SourceKind::MethodFunction, source))))
    return nullptr;
  if (is_of(x, ClassSet::Partial) && !track_partial(x, source)) return nullptr;
  return Py_NewRef(x);
}

bool Tracker::track_partial(PyObject* x, int source) {
  for (const auto& [kind, name] :
       {std::pair{SourceKind::PartialFunction, "func"}, std::pair{SourceKind::PartialArguments, "args"},
        std::pair{SourceKind::PartialKeywords, "keywords"}}) {
    const Object part = Object::take(PyObject_GetAttrString(x, name));
    if (!part || !note(part.get(), t_.sources.add(kind, source))) return false;
    if (kind != SourceKind::PartialFunction && !t_.containers.track_contents(part.get(), 2)) return false;
  }
  return true;
}

bool Tracker::track_state(PyObject* x) {
  t_.guards.add_class(Py_TYPE(x));
  if (t_.objects.dict_source(x) >= 0 && !t_.containers.track_contents(instance_dict(x), 2)) return false;
  return t_.containers.track_contents(x, 2);
}

bool Tracker::operand(PyObject* x) {
  if (t_.ended()) return false;
  PyTypeObject* type = Py_TYPE(x);
  if (is_tensor(x)) {
    t_.guards.add_special_methods(type);
    return !t_.ended();
  }
  if (is_scalar(x) || is_symbolic(x) || is_symbolic_scalar(x) || is_numpy_scalar(x)) return true;
  if (is_container(x) && !t_.containers.track_contents(x, 8)) return false;
  const int source = t_.sources.find(x);
  if (type == &PyDictProxy_Type && source >= 0) {
    // Its one member is the mapping that it shows.
    constexpr int kMapping = sizeof(PyObject);
    PyObject* mapping = member_at(x, kMapping);
    const Object shown =
        Object::take(track(mapping, t_.sources.add(SourceKind::Member, source, kMapping, "mapping"_name)));
    return shown && operand(shown.get());
  }
  if (source >= 0 && is_closed(type)) return t_.graph_break(Break::ClosedObject, type->tp_name), false;
  if (source >= 0 && is_c_iterator(x)) return t_.graph_break(Break::OuterIterator), false;
  if (is_python_class(type)) {
    t_.guards.add_class(type);
    return true;
  }
  if (is_known_class(type) || PyType_Check(x)) return t_.objects.may_read_class(x);
  t_.graph_break(Break::UnknownObject, type->tp_name);
  return false;
}

bool Tracker::status_is_final() const { return !t_.ended() && trace_failure().empty(); }

PyObject* Tracker::finish_call(PyObject* given) {
  Object result = Object::take(given);
  if (t_.ended()) return Progress::stopped();
  if (Reason failure = trace_failure(); !failure.empty()) return t_.graph_break(std::move(failure));
  if (recorded_operators() > kMostOperators)
    return t_.graph_break(Break::ManyOperators, std::to_string(kMostOperators));
  if (!result || (PyUnicode_Check(result.get()) && !t_.guards.add_addresses_in(result.get()))) return nullptr;
  PyObject* x = t_.tensors.wrap(result.release());
  if (is_tensor(x) && !is_base_tensor(x)) t_.guards.add_special_methods(Py_TYPE(x));
  if (!is_scalar(x) && (t_.progress.place().frame == t_.root || PyGen_CheckExact(x))) t_.made.add_result(x);
  return x;
}

}  // namespace vesta::capture
