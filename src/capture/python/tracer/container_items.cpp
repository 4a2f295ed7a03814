#include "capture/python/tracer/container_items.h"

#include "capture/python/functions/hashed_keys.h"
#include "capture/python/functions/plain_objects.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/symbolic_scalar.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/class_sets.h"
#include "capture/python/values/classes.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture {
namespace {

bool has_own_subscript(PyTypeObject* type, PyTypeObject* base) {
  return type->tp_as_mapping && base->tp_as_mapping &&
         type->tp_as_mapping->mp_subscript != base->tp_as_mapping->mp_subscript;
}

// Operations::unpack, iterating as the trace does.
class Unpacking final : public Operations {
 public:
  explicit Unpacking(ContainerItems& items) : items_(items) {}
  PyObject* get_iter(PyObject* x) override { return items_.get_iter(x); }
  PyObject* next(PyObject* iterator) override { return items_.next(iterator); }
  int extend_list(PyObject* list, PyObject* iterable) override { return items_.extend_list(list, iterable); }

 private:
  ContainerItems& items_;
};

}  // namespace

// ---- items

Object ContainerItems::plain_key(PyObject* container, PyObject* key) {
  if (!PyDict_Check(container)) return Object::share(key);
  if (is_tensor(key)) {
    // A tensor is a key by its identity, which an argument changes from call to call.
    PyObject* real = t_.tensors.held_by_program(key);
    const int source = is_traced(real) ? -1 : t_.sources.find(real);
    if (source < 0 || t_.sources[source].kind == SourceKind::Local) return Object::share(key);
    t_.guards.add_identity(real);
    return Object::share(real);
  }
  if (!t_.equality.guard_key(key)) return {};
  return is_scalar(key) ? Object::share(key) : Object::take(t_.numbers.plain(key));
}

PyObject* ContainerItems::get(PyObject* container, PyObject* given) {
  if (t_.ended()) return nullptr;
  const Object plain = plain_key(container, given);
  if (!plain) return nullptr;
  PyObject* key = plain.get();
  PyTypeObject* type = Py_TYPE(container);
  const int source = t_.sources.find(container);
  if (source >= 0 && !t_.log.find(container) && PyLong_CheckExact(key) &&
      ((PyTuple_Check(container) && !has_own_subscript(type, &PyTuple_Type)) ||
       (PyList_Check(container) && !has_own_subscript(type, &PyList_Type))))
    return get_known_index(container, source, key);
  if (PyDict_Check(container) && !has_own_subscript(type, &PyDict_Type) && t_.equality.is_source_key(key))
    return get_dict_item(container, source, key);
  if (!may_operate_on(t_, {container})) return nullptr;
  if (!PyType_Check(container)) {
    // A missing item would be made and kept under the hash of the fake tensor.
    if (source >= 0 && PyDict_Check(container) && type != &PyDict_Type && is_tensor(key))
      return t_.graph_break(Break::TensorKey);
    if (!t_.containers.has_known_items(container, key) && !t_.tracker.operand(container)) return nullptr;
  }
  return t_.tracker.operand(key) ? t_.tracker.finish_call(PyObject_GetItem(container, key)) : nullptr;
}

PyObject* ContainerItems::get_known_index(PyObject* sequence, int source, PyObject* key) {
  if (!t_.containers.track_length(sequence)) return nullptr;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(sequence);
  Py_ssize_t i = PyLong_AsSsize_t(key);
  if (i == -1 && PyErr_Occurred()) PyErr_Clear();
  if (i < 0) i += n;
  if (i < 0 || i >= n) return PyObject_GetItem(sequence, key);  // raises
  return t_.tracker.track(PySequence_Fast_GET_ITEM(sequence, i), t_.sources.item(source, i));
}

PyObject* ContainerItems::get_dict_item(PyObject* dict, int source, PyObject* key) {
  PyTypeObject* type = Py_TYPE(dict);
  t_.guards.add_class(type);
  if (const auto x = t_.containers.read_dict(dict, source, key)) return *x;
  if (source >= 0 && is_derived_from(type, ClassSet::DefaultDict)) return missing_item(dict, source, key);
  // A subclass's __missing__ may add the item.
  if (type != &PyDict_Type && !t_.containers.before_write(dict, UndoLog::Writes::Any)) return nullptr;
  return t_.tracker.finish_call(PyObject_GetItem(dict, key));
}

PyObject* ContainerItems::missing_item(PyObject* dict, int source, PyObject* key) {
  if (PyObject* f = _PyType_Lookup(Py_TYPE(dict), "__missing__"_name); f && PyFunction_Check(f))
    return t_.graph_break(Break::DefaultDictMethod);
  constexpr int kFactory = sizeof(PyDictObject);  // a defaultdict has this one member besides a dict's
  PyObject* now = member_at(dict, kFactory);
  const Object factory = Object::take(
      now ? t_.tracker.track(now, t_.sources.add(SourceKind::Member, source, kFactory, "default_factory"_name))
          : Py_NewRef(Py_None));
  if (!factory) return nullptr;
  if (factory.get() == Py_None) return t_.tracker.finish_call(PyObject_GetItem(dict, key));  // raises
  Object x = Object::take(t_.calls.call(factory.get(), nullptr, 0, nullptr));
  if (!x || !t_.containers.before_write_key(dict, key, false) || PyDict_SetItem(dict, key, x.get()) < 0) return nullptr;
  return x.release();
}

int ContainerItems::set(PyObject* container, PyObject* given, PyObject* value) {
  if (t_.ended()) return -1;
  const bool is_dict = PyDict_Check(container);
  if (is_dict && t_.sources.find(container) >= 0 && is_hashed_by_program(given))
    return t_.equality.guard_key(given) ? t_.fail(Break::KeysWithHashWritten) : -1;
  const Object plain = plain_key(container, given);
  if (!plain) return -1;
  PyObject* key = plain.get();
  const bool is_of_python = is_python_class(Py_TYPE(container));
  if (is_dict && !is_of_python && t_.equality.is_source_key(key))
    return t_.containers.before_write_key(container, key, value == nullptr) ? t_.python.set_item(container, key, value)
                                                                            : -1;
  if (is_tensor(container)) return set_tensor_item(container, key, value);
  if (!t_.containers.has_known_items(container, key) && !t_.tracker.operand(container)) return -1;
  // The __setitem__ of another Python class is traced.
  if ((!is_of_python || is_dict || PyList_Check(container)) &&
      !t_.containers.before_write(container, UndoLog::Writes::Any))
    return -1;
  return t_.tracker.operand(key) ? t_.tracker.finish_status(t_.python.set_item(container, key, value)) : -1;
}

int ContainerItems::set_tensor_item(PyObject* tensor, PyObject* key, PyObject* value) {
  if (!t_.may_run_operator()) return -1;
  if (!t_.tracker.operand(key) || (value && !t_.tracker.operand(value))) return -1;
  Object number;
  if (value && is_symbolic_scalar(value)) {
    number = Object::take(t_.numbers.as_tensor(value, tensor));
    if (!number) return -1;
    value = number.get();
  }
  return t_.tracker.finish_status(t_.python.set_item(tensor, key, value));
}

int ContainerItems::contains(PyObject* container, PyObject* x) {
  if (!t_.equality.guard_key(x)) return -1;
  if (const int source = t_.sources.find(container);
      source >= 0 && PyDict_Check(container) && !is_python_class(Py_TYPE(container)) && t_.equality.is_source_key(x)) {
    const int found = PyDict_Contains(container, x);
    if (found >= 0 && (t_.log.before(container, x) != nullptr) == (found == 1))
      t_.guards.add(found ? Check::Present : Check::Absent, t_.sources.value(source, x));
    return found;
  }
  if (!t_.tracker.operand(container) || !t_.tracker.operand(x)) return -1;
  const bool is_searched = PyList_Check(container) || PyTuple_Check(container);
  if (is_searched && !is_scalar(x) && !is_tensor(x) && !t_.equality.guard_key(container)) return -1;
  return t_.tracker.finish_status(t_.python.contains(container, x));
}

Py_ssize_t ContainerItems::length(PyObject* x) {
  if (t_.ended()) return -1;
  if (is_container(x) ? !t_.containers.track_length(x) : !t_.tracker.operand(x)) return -1;
  if (is_python_class(Py_TYPE(x))) t_.guards.add_class(Py_TYPE(x));
  return t_.tracker.finish_status(t_.python.length(x));
}

// ---- iteration

bool ContainerItems::may_iterate(PyObject* x) {
  // The iterator of a list reads its items, and nothing of what they hold.
  if (PyList_CheckExact(x) || PyTuple_CheckExact(x)) return !t_.ended() && t_.containers.track_contents(x, 1);
  return t_.tracker.operand(x);
}

PyObject* ContainerItems::get_iter(PyObject* x) {
  if (!may_iterate(x)) return nullptr;
  t_.guards.add_class(Py_TYPE(x), "__iter__"_name);
  PyObject* iterator = t_.python.get_iter(x);
  return PyIter_Check(x) && t_.sources.find(x) >= 0 ? iterator : t_.tracker.finish_call(iterator);
}

bool ContainerItems::may_advance(PyObject* iterator) {
  if (t_.ended()) return false;
  if (t_.sources.find(iterator) >= 0 && is_c_iterator(iterator)) return t_.graph_break(Break::OuterIterator), false;
  return t_.tracker.operand(iterator);
}

PyObject* ContainerItems::next(PyObject* iterator) {
  if (!may_advance(iterator)) return nullptr;
  PyObject* x = t_.python.next(iterator);
  if (!x && !t_.ended() && trace_failure().empty()) return nullptr;
  return t_.tracker.finish_call(x);
}

int ContainerItems::unpack(PyObject* x, int before, int after, PyObject** out) {
  if (t_.ended()) return -1;
  const int source = t_.sources.find(x);
  if (source >= 0 && is_c_iterator(x)) return t_.fail(Break::OuterIterator);
  if (source >= 0 && after < 0 && !t_.log.find(x) && (PyTuple_CheckExact(x) || PyList_CheckExact(x)) &&
      PySequence_Fast_GET_SIZE(x) == before) {
    if (!t_.containers.track_length(x)) return -1;
    for (int i = 0; i < before; ++i) {
      out[i] = t_.tracker.track(PySequence_Fast_GET_ITEM(x, i), t_.sources.item(source, i));
      if (out[i]) continue;
      while (i-- > 0) Py_DECREF(out[i]);
      return -1;
    }
    return 0;
  }
  if (!may_iterate(x)) return -1;
  if (t_.tracker.finish_status(Unpacking(*this).unpack(x, before, after, out)) < 0) return -1;
  const int n = before + (after < 0 ? 0 : 1 + after);
  for (int i = 0; i < n; ++i) out[i] = t_.tensors.wrap(out[i]);
  return 0;
}

// ---- displays

PyObject* ContainerItems::list_to_tuple(PyObject* list) {
  // After a graph break in the middle of a display the list existed before the trace.
  return t_.tracker.operand(list) ? t_.python.list_to_tuple(list) : nullptr;
}

int ContainerItems::extend_list(PyObject* list, PyObject* iterable) {
  const Object items = t_.containers.unpacked(iterable);
  return items ? t_.tracker.finish_status(t_.python.extend_list(list, items.get())) : -1;
}

int ContainerItems::update_set(PyObject* set, PyObject* iterable) {
  if (!t_.tracker.operand(iterable) || !t_.equality.guard_key(iterable)) return -1;
  return t_.tracker.finish_status(t_.python.update_set(set, iterable));
}

}  // namespace vesta::capture
