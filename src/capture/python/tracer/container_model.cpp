#include "capture/python/tracer/container_model.h"

#include <algorithm>

#include "capture/python/functions/hashed_keys.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/class_sets.h"
#include "capture/python/values/keys.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture {
namespace {

constexpr Py_ssize_t kMostItems = 1 << 14;

class Flag {
 public:
  explicit Flag(bool& flag) : flag_(flag), outer_(flag) { flag = true; }
  ~Flag() { flag_ = outer_; }
  Flag& operator=(Flag&&) = delete;  // neither copied nor moved

 private:
  bool& flag_;
  const bool outer_;
};

}  // namespace

// ---- reads

Object ContainerModel::original(PyObject* container) {
  const UndoLog::Entry* e = t_.log.find(container);
  return e ? e->before : Object::share(container);
}

bool ContainerModel::track_length(PyObject* x) {
  const int source = t_.sources.find(x);
  if (source < 0) return true;
  const Py_ssize_t n = PyObject_Size(original(x).get());
  if (n < 0) return false;
  t_.guards.add(Check::Length, source, nullptr, n);
  return true;
}

bool ContainerModel::track_contents(PyObject* x, int depth) {
  if (depth <= 0 || is_scalar(x)) return true;
  if (const auto it = depths_.find(x); it != depths_.end() && it->second >= depth) return true;
  const Flag exact(exact_);
  const int source = t_.sources.find(x);
  // A container that the trace made has no earlier state to guard: what it holds now may.
  const Object before = source >= 0 ? original(x) : Object::share(x);
  PyObject* c = before.get();
  const bool is_sequence = PyTuple_Check(c) || PyList_Check(c);  // a written set's items are a tuple, too
  if (is_sequence       ? !track_sequence(x, c, source, depth)
      : PyDict_Check(c) ? !track_dict(c, source, depth)
                        : PyAnySet_Check(c) && !track_set(c, source))
    return false;
  if (source < 0) return true;
  if (!is_sequence && is_of(x, ClassSet::Deque)) return t_.graph_break(Break::DequeRead), false;
  // What the container held before the trace does not change.
  depths_[x] = depth;
  return true;
}

bool ContainerModel::track_sequence(PyObject* x, PyObject* before, int source, int depth) {
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(before);
  if (n > kMostItems) return t_.graph_break(Break::ManyItems), false;
  if (source >= 0 && (PyList_Check(x) || PyTuple_Check(x))) {
    t_.guards.add(Check::Length, source, nullptr, n);
    for (Py_ssize_t i = 0; i < n; ++i)
      if (!t_.tracker.note(PySequence_Fast_GET_ITEM(before, i), t_.sources.item(source, i))) return false;
  }
  for (Py_ssize_t i = 0; i < n; ++i)
    if (!track_contents(PySequence_Fast_GET_ITEM(before, i), depth - 1)) return false;
  return true;
}

bool ContainerModel::track_dict(PyObject* before, int source, int depth) {
  if (PyDict_GET_SIZE(before) > kMostItems) return t_.graph_break(Break::ManyKeys), false;
  if (source >= 0 && !track_items(before, source)) return false;
  PyObject* value = nullptr;
  std::vector<PyObject*> values;  // tracking may run code that writes to the dict
  for (Py_ssize_t at = 0; PyDict_Next(before, &at, nullptr, &value);) values.push_back(value);
  return std::all_of(values.begin(), values.end(), [&](PyObject* v) { return track_contents(v, depth - 1); });
}

bool ContainerModel::track_items(PyObject* before, int source) {
  if (has_keys_of_program(before)) return t_.graph_break(Break::KeysWithHashRead), false;
  const Object keys = Object::take(keys_of(before));
  if (!keys) return false;
  const Py_ssize_t n = PyTuple_GET_SIZE(keys.get());
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys.get(), i);
    if (is_scalar(key) || t_.sources.find(key) >= 0) continue;
    if (PyTuple_Check(key) || is_singleton(key))
      t_.tracker.constant_source(key);
    else if (!t_.tracker.note(key, t_.sources.add(SourceKind::DictKey, source, static_cast<int>(i))))
      return false;
  }
  t_.guards.add(Check::Keys, source, keys.get());
  for (PyObject* key : span_of(keys.get())) {
    PyObject* value = PyDict_GetItemWithError(before, key);
    if (!value) return !PyErr_Occurred();
    if (!t_.tracker.note(value, t_.sources.value(source, key))) return false;
  }
  return true;
}

bool ContainerModel::track_set(PyObject* before, int source) {
  if (source < 0) return true;
  if (!holds_plain_keys(before)) return t_.graph_break(Break::SetOfObjects), false;
  const Object expected = Object::take(PyFrozenSet_New(before));
  if (!expected) return false;
  t_.guards.add(Check::Members, source, expected.get());
  return true;
}

bool ContainerModel::has_known_items(PyObject* x, PyObject* key) const {
  if (!PyLong_CheckExact(key) || !(PyList_CheckExact(x) || PyTuple_CheckExact(x))) return false;
  const UndoLog::Entry* e = t_.log.find(x);
  return t_.sources.find(x) < 0 || (e && !e->only_appended);
}

Object ContainerModel::unpacked(PyObject* x) {
  const int source = t_.sources.find(x);
  if (source >= 0 && !t_.log.find(x)) {
    if ((PyTuple_CheckExact(x) || PyList_CheckExact(x)) && PySequence_Fast_GET_SIZE(x) <= kMostItems)
      return unpacked_sequence(x, source);
    if (PyDict_CheckExact(x) && PyDict_GET_SIZE(x) <= kMostItems) {
      const Object keys = Object::take(keys_of(x));
      if (!keys) return {};
      if (std::ranges::all_of(span_of(keys.get()), [](PyObject* k) { return PyUnicode_CheckExact(k); }))
        return unpacked_dict(x, source, keys.get());
    }
  }
  return t_.tracker.operand(x) ? Object::share(x) : Object();
}

Object ContainerModel::unpacked_sequence(PyObject* x, int source) {
  if (!track_length(x)) return {};
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(x);
  const Object list = Object::take(PyList_New(n));
  for (Py_ssize_t i = 0; list && i < n; ++i) {
    PyObject* item = t_.tracker.track(PySequence_Fast_GET_ITEM(x, i), t_.sources.item(source, i));
    if (!item) return {};
    PyList_SET_ITEM(list.get(), i, item);
  }
  return PyList_Check(x) || !list ? list : Object::take(PyList_AsTuple(list.get()));
}

Object ContainerModel::unpacked_dict(PyObject* x, int source, PyObject* keys) {
  t_.guards.add(Check::Keys, source, keys);
  Object out = Object::take(PyDict_New());
  for (PyObject* key : span_of(out ? keys : nullptr)) {
    PyObject* value = PyDict_GetItemWithError(x, key);
    const Object item = Object::take(value ? t_.tracker.track(value, t_.sources.value(source, key)) : nullptr);
    if (!item || PyDict_SetItem(out.get(), key, item.get()) < 0) return {};
  }
  return out;
}

std::optional<PyObject*> ContainerModel::read_dict(PyObject* dict, int source, PyObject* key) {
  PyObject* now = PyDict_GetItemWithError(dict, key);
  if (!now && PyErr_Occurred()) return nullptr;
  const bool is_known = source >= 0 && t_.log.before(dict, key) == now;
  const int value = is_known ? t_.sources.value(source, key) : -1;
  if (now) return is_known ? t_.tracker.track(now, value) : t_.tensors.wrap(Py_NewRef(now));
  if (is_known) t_.guards.add(Check::Absent, value);
  if (PyErr_Occurred()) return nullptr;
  return std::nullopt;
}

// ---- writes

bool ContainerModel::before_write_key(PyObject* dict, PyObject* key, bool deletes) {
  // An assignment does the same whether or not the dict has the key; a deletion does not.
  if (const int source = t_.sources.find(dict); deletes && source >= 0)
    t_.guards.add(t_.log.before(dict, key) ? Check::Present : Check::Absent, t_.sources.value(source, key));
  return t_.log.dict(dict, key) == 0;
}

bool ContainerModel::before_write(PyObject* x, UndoLog::Writes kind) {
  const bool is_old = t_.sources.find(x) >= 0;
  const UndoLog::Entry* e = t_.log.find(x);
  if (PyDict_Check(x)) {
    if (is_old && !track_contents(x, 1)) return false;
    if (is_old && !e && has_keys_of_program(x)) return t_.graph_break(Break::KeysWithHashWritten), false;
    return t_.log.dict(x) == 0;
  }
  if (PyList_Check(x)) {
    const bool reads = kind == UndoLog::Writes::Any && (!e || e->only_appended);
    return (!is_old || !reads || track_contents(x, 1)) && t_.log.items(x, kind) == 0;
  }
  if (PyAnySet_Check(x)) return (!is_old || e || track_contents(x, 1)) && t_.log.items(x, UndoLog::Writes::Any) == 0;
  return !is_old || (t_.graph_break(Break::ObjectChanged, Py_TYPE(x)->tp_name), false);
}

}  // namespace vesta::capture
