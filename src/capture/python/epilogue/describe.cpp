#include "capture/python/epilogue/describe.h"

#include "capture/python/epilogue/describe_kinds.h"
#include "capture/python/functions/functions.h"
#include "capture/python/functions/plain_objects.h"
#include "capture/python/tensors/inner_backward.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/symbolic_scalar.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/class_sets.h"
#include "capture/python/values/classes.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture {
namespace {

constexpr int kMostDepth = 200;

// Immutable objects of C that no rebuilt object differs from.
bool is_immutable(PyObject* x) {
  return PyModule_Check(x) || PyCode_Check(x) || PyRange_Check(x) || Py_TYPE(x) == &PyMethodDescr_Type ||
         is_of(x, ClassSet::TensorProperties) || is_numpy_scalar(x);
}

// Objects of C whose state __reduce__ does not give, or gives only with a change to a container of theirs.
bool cannot_be_reduced(PyObject* x) {
  return PyGen_CheckExact(x) || PyCoro_CheckExact(x) || PyAsyncGen_CheckExact(x) || PyExceptionInstance_Check(x) ||
         is_of(x, ClassSet::DictViews) || is_of(x, ClassSet::ContainerIterators);
}

}  // namespace

int Describer::add(Reconstruction r) {
  epilogue.reconstructions.push_back(std::move(r));
  return static_cast<int>(epilogue.reconstructions.size()) - 1;
}

int Describer::add(PyObject* x, Reconstruction r) {
  const int id = add(std::move(r));
  known_.try_emplace(x, id);  // an instance keeps its own number, not that of its payload
  return id;
}

PyObject* Describer::keep(PyObject* x) {
  epilogue.kept.push_back(Object::share(x));
  return x;
}

int Describer::source(int id) {
  if (trace.sources[id].kind == SourceKind::Constant) return constant(trace.sources[id].key);
  epilogue.needed.push_back(id);
  return add({Make::Source, static_cast<int>(epilogue.needed.size()) - 1, nullptr, {}});
}

int Describer::fail(PyObject* x, Break why, std::string_view what) {
  if (!blocked) {
    blocked = x;
    reason = reason_for(why, what);
  }
  return -1;
}

bool Describer::values(std::initializer_list<PyObject*> xs, std::vector<int>& parts) {
  for (PyObject* x : xs) {
    const int part = value(x);
    if (part < 0) return false;
    parts.push_back(part);
  }
  return true;
}

int Describer::value(PyObject* x) {
  if (!x) return add({Make::Null, 0, nullptr, {}});
  if (closed_.contains(x)) return fail(x, Break::SelfReferenceNotRebuilt);
  if (const auto it = known_.find(x); it != known_.end()) return it->second;
  // Objects of these classes are made empty and filled then, so that they may hold themselves.
  PyTypeObject* base = c_base(Py_TYPE(x));
  const bool closed = base != &PyBaseObject_Type && base != &PyList_Type && base != &PyDict_Type &&
                      base != &PyODict_Type && base != &PyCell_Type && base != &PyFunction_Type;
  if (closed) closed_.insert(x);
  const int id = described(x);
  if (closed) closed_.erase(x);
  if (id >= 0) known_.try_emplace(x, id);
  return id;
}

int Describer::described(PyObject* x) {
  if (is_scalar(x) || trace.functions.is_constant(x)) return constant(x);
  if (PyObject* real = trace.tensors.real_of(x)) return source(trace.sources.find(real));
  if (const int s = trace.sources.find(x); s >= 0) return source(s);
  if (const int s = is_symbolic_scalar(x) ? scalar_source(x) : trace.numbers.symbol_source(x); s >= 0) return source(s);
  if (is_tensor(x) || is_symbolic(x)) return tensor_or_number(x);
  if (depth_ >= kMostDepth) return fail(x, Break::NestingTooDeep);
  ++depth_;
  const int id = described_object(x);
  --depth_;
  return id;
}

int Describer::tensor_or_number(PyObject* x) {
  if (is_wrapped(x)) return fail(x, Break::TransformedTensor);
  if (is_traced(x) || is_symbolic_int(x)) {
    // Eager's view changes with the leaf, and one that a call makes has no leaf that it is a view of.
    if (const Object leaf = is_tensor(x) ? viewed_by_leaf(x) : Object();
        leaf && trace.log.find(trace.tensors.held_by_program(leaf.get()), UndoLog::kRequiresGrad))
      return fail(x, Break::OperatorNotTraced, "a view of a leaf whose requires_grad changes outlives the graph");
    outputs.push_back(x);
    alive.push_back(Object::share(x));
    const int output = add({Make::Output, static_cast<int>(outputs.size()) - 1, nullptr, {}});
    if (is_tensor(x) && retains_gradient(x)) {
      alive.push_back(Object::take(PyObject_GetAttr(x, "grad"_name)));
      const int gradient = value(alive.back().get());
      if (gradient < 0) return -1;
      epilogue.effects.push_back({Write::RetainedGradient, output, -1, gradient});
      repeat_retained(x);
    }
    // A leaf that the trace has made, and its gradient.
    if (is_tensor(x) && requires_grad(x) && is_leaf(x)) {
      alive.push_back(Object::take(PyObject_GetAttr(x, "grad"_name)));
      const int gradient = alive.back() ? value(alive.back().get()) : -1;
      if (gradient < 0) return -1;
      if (alive.back().get() != Py_None) epilogue.effects.push_back({Write::Gradient, output, -1, gradient});
    }
    return is_tensor(x) && !is_base_tensor(x) ? describe_subclass(*this, x, output) : output;
  }
  if (is_symbolic_bool(x)) {
    const int truth = PyObject_IsTrue(x);
    if (truth < 0) return PyErr_Clear(), fail(x, Break::ValueNotRead, "a symbolic condition");
    return constant(truth ? Py_True : Py_False);
  }
  return fail(x, is_tensor(x) ? Break::UnknownTensor : Break::SymbolicFloat);
}

int Describer::described_object(PyObject* x) {
  PyTypeObject* type = Py_TYPE(x);
  auto* cls = reinterpret_cast<PyObject*>(type);
  std::vector<int> parts;
  if (PyType_Check(x)) return trace.made.contains(x) ? fail(x, Break::NewClassUsed) : constant(x);
  if (PyModule_Check(x) && !is_imported(x)) return fail(x, Break::ModuleNotInTable);
  if (is_immutable(x)) return constant(x);
  if (PyList_CheckExact(x) || PyTuple_CheckExact(x) || PySet_CheckExact(x) || PyFrozenSet_CheckExact(x))
    return describe_container(*this, x);
  if (PyDict_CheckExact(x)) return describe_dict(*this, x, Make::Dict);
  if (PyODict_CheckExact(x)) {
    PyObject* attributes = instance_dict(x);
    return attributes && PyDict_GET_SIZE(attributes) > 0 ? describe_instance(*this, x)
                                                         : describe_dict(*this, x, Make::OrderedDict);
  }
  if (PySlice_Check(x)) {
    auto* s = reinterpret_cast<PySliceObject*>(x);
    return values({s->start, s->stop, s->step}, parts) ? add({Make::Slice, 0, nullptr, std::move(parts)}) : -1;
  }
  if (PyCell_Check(x)) {
    const int id = add(x, {Make::Cell, 0, nullptr, {}});
    if (!values({PyCell_GET(x)}, parts)) return -1;
    (*this)[id].parts = std::move(parts);
    return id;
  }
  if (PyMethod_Check(x))
    return values({PyMethod_GET_FUNCTION(x), PyMethod_GET_SELF(x)}, parts)
               ? add({Make::Method, 0, nullptr, std::move(parts)})
               : -1;
  if (PyFunction_Check(x)) return trace.made.contains(x) ? describe_function(*this, x) : constant(x);
  if (PyCFunction_Check(x)) {
    PyObject* self = reinterpret_cast<PyCFunctionObject*>(x)->m_self;
    return !self || PyModule_Check(self) || PyType_Check(self) ? constant(x) : describe_bound(*this, x, self);
  }
  if (is_method_wrapper(x)) {
    const Object self = attribute_of(x, "__self__");
    return self ? describe_bound(*this, x, self.get()) : fail(x, Break::NotRebuilt, type->tp_name);
  }
  if (type == &PySuper_Type) {
    const Object start = attribute_of(x, "__thisclass__"), self = attribute_of(x, "__self__");
    if (!start || !self) return fail(x, Break::NotRebuilt, type->tp_name);
    if (!values({start.get(), self.get()}, parts)) return -1;
    parts.insert(parts.begin(), constant(cls));
    return add({Make::Call, 0, nullptr, std::move(parts)});
  }
  if (is_in(type, ClassSet::TorchSize)) {
    const Object tuple = Object::take(PySequence_Tuple(x));
    if (!tuple) return PyErr_Clear(), fail(x, Break::ItemsNotRead);
    alive.push_back(tuple);
    if (!values({tuple.get()}, parts)) return -1;
    return add({Make::Call, 0, nullptr, {constant(cls), parts[0]}});
  }
  if (is_python_class(type)) return describe_instance(*this, x);
  if (is_dict_iterator(type)) return describe_dict_iterator(*this, x);
  if (cannot_be_reduced(x)) return fail(x, Break::NotRebuilt, type->tp_name);
  if (const Py_ssize_t fields = fields_of_struct_sequence(type); fields > 0)
    return describe_struct_sequence(*this, x, fields);
  return is_known_class(type) ? describe_reduced(*this, x) : fail(x, Break::NotRebuilt, type->tp_name);
}

}  // namespace vesta::capture
