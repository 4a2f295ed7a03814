#include "capture/python/tracer/undo_log.h"

#include "capture/python/functions/hashed_keys.h"
#include "capture/python/tensors/inner_backward.h"
#include "capture/python/values/keys.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture {

PyObject* items_of(PyObject* container) {
  if (PyList_Check(container)) return PyList_AsTuple(container);
  if (PyTuple_Check(container)) return Py_NewRef(container);
  const Object list = Object::take(PySequence_List(container));
  return list ? PyList_AsTuple(list.get()) : nullptr;
}

bool assign_set(PyObject* set, PyObject* items) {
  const Object wanted = Object::take(PySet_New(items)), now = Object::take(PySequence_List(set));
  if (!wanted || !now) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(now.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(now.get(), i);
    const int stays = PySet_Contains(wanted.get(), item);
    if (stays < 0 || (stays == 0 && PySet_Discard(set, item) < 0)) return false;
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); ++i)
    if (PySet_Add(set, PySequence_Fast_GET_ITEM(items, i)) < 0) return false;
  return true;
}

UndoLog::Entry* UndoLog::add(PyObject* target, Object before, int offset) {
  order_.push_back({Object::share(target), std::move(before), offset});
  return entries_[{target, offset}] = &order_.back();
}

const UndoLog::Entry* UndoLog::find(PyObject* target, int offset) const {
  return found_in(entries_, {target, offset}, nullptr);
}

bool UndoLog::Entry::wrote(PyObject* key) const {
  for (const Object& k : other_keys)
    if (k.get() == key) return true;
  return scalar_keys && is_scalar(key) && PySet_Contains(scalar_keys.get(), key) == 1;
}

int UndoLog::dict(PyObject* dict, PyObject* key) {
  note(dict);
  Entry* e = const_cast<Entry*>(find(dict));
  if (!e && !(e = add_dict(dict))) return -1;
  if (!key) return 0;
  if (!is_scalar(key)) {
    if (!e->wrote(key)) e->other_keys.push_back(Object::share(key));
    return 0;
  }
  if (!e->scalar_keys) e->scalar_keys = Object::take(PySet_New(nullptr));
  return e->scalar_keys ? PySet_Add(e->scalar_keys.get(), key) : -1;
}

UndoLog::Entry* UndoLog::add_dict(PyObject* dict) {
  // PyDict_Copy asks no key for its hash, but it takes the order of an OrderedDict's hash table.
  Object copy = Object::take(PyODict_Check(dict) ? PyDict_New() : PyDict_Copy(dict));
  if (copy && PyODict_Check(dict)) {
    const Object items =
        Object::take(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyODict_Type), "items", "O", dict));
    if (!items || PyDict_MergeFromSeq2(copy.get(), items.get(), 1) < 0) return nullptr;
  }
  return copy ? add(dict, std::move(copy), -1) : nullptr;
}

int UndoLog::items(PyObject* container, Writes kind) {
  note(container);
  if (const Entry* e = find(container)) {
    if (kind == Writes::Any) const_cast<Entry*>(e)->only_appended = false;
    return 0;
  }
  Object items = Object::take(items_of(container));
  if (!items) return -1;
  add(container, std::move(items), -1)->only_appended = kind == Writes::Append;
  return 0;
}

void UndoLog::cell(PyObject* cell) {
  note(cell);
  if (!find(cell)) add(cell, Object::share(PyCell_GET(cell)), -1);
}

void UndoLog::member(PyObject* object, int offset) {
  note(object);
  if (!find(object, offset)) add(object, Object::share(member_at(object, offset)), offset);
}

void UndoLog::gradient(PyObject* leaf) {
  note(leaf);
  if (!find(leaf, kGradient)) add(leaf, Object::take(PyObject_GetAttr(leaf, "grad"_name)), kGradient);
}

void UndoLog::requires_grad(PyObject* leaf) {
  note(leaf);
  if (!find(leaf, kRequiresGrad)) add(leaf, Object::take(PyObject_GetAttr(leaf, "requires_grad"_name)), kRequiresGrad);
}

void UndoLog::data(PyObject* leaf) {
  note(leaf);
  if (!find(leaf, kData)) add(leaf, Object(), kData);
}

PyObject* UndoLog::before(PyObject* dict, PyObject* key) const {
  const Entry* e = find(dict);
  PyObject* found = PyDict_GetItemWithError(e ? e->before.get() : dict, key);
  if (!found) PyErr_Clear();
  return found;
}

namespace {

// Goes on after an error.
void quietly(int status) {
  if (status < 0) PyErr_Clear();
}

void restore_dict(PyObject* dict, PyObject* before) {
  // Keys that were there all the time keep their places: only a dict that lost a key is cleared and filled again.
  bool anew = false;
  Py_ssize_t at = 0;
  PyObject *key = nullptr, *was = nullptr;
  while (!anew && PyDict_Next(before, &at, &key, &was)) anew = !PyDict_GetItemWithError(dict, key);
  PyErr_Clear();
  const Object order = Object::take(keys_of(dict));
  const Object keys = Object::take(order ? PySequence_List(order.get()) : PyDict_Keys(dict));
  if (!anew) {
    // A key that was taken out and put back is at the end.
    Py_ssize_t i = 0;
    at = 0;
    while (!anew && PyDict_Next(before, &at, &key, &was)) {
      while (i < PyList_GET_SIZE(keys.get()) && PyList_GET_ITEM(keys.get(), i) != key) ++i;
      anew = i++ >= PyList_GET_SIZE(keys.get());
    }
  }
  if (anew) {
    quietly(clear_dict(dict));
    at = 0;
    while (PyDict_Next(before, &at, &key, &was)) quietly(set_dict_item(dict, key, was));
    return;
  }
  for (Py_ssize_t i = PyList_GET_SIZE(keys.get()); i-- > 0;) {
    key = PyList_GET_ITEM(keys.get(), i);
    was = PyDict_GetItemWithError(before, key);
    if (!was)
      quietly(delete_dict_item(dict, key));
    else if (PyDict_GetItemWithError(dict, key) != was)
      quietly(set_dict_item(dict, key, was));
  }
}

// A dict or set whose keys have Python code for their hashes, which must not run. False: it is of another kind.
bool restore_unhashed(PyObject* t, PyObject* before) {
  if (PyDict_Check(t)) {
    const bool had = has_keys_of_python(before);
    if (!had && !has_keys_of_python(t)) return false;
    quietly(clear_dict(t));
    if (PyODict_Check(t))
      restore_dict(t, before);
    else
      quietly(PyDict_Merge(t, before, 1));  // a dict has the hashes of its keys
    return true;
  }
  if (!PySet_Check(t) || !has_keys_of_python(t)) return false;
  PySet_Clear(t);
  // A set with such items is new: the trace reads no other.
  if (!is_hashed_by_python(before) && !assign_set(t, before)) PyErr_Clear();
  return true;
}

}  // namespace

void UndoLog::restore(const Entry& e) {
  PyObject* t = e.target.get();
  if (e.offset == kData) return;
  if (e.offset == kGradient) return quietly(PyObject_SetAttr(t, "grad"_name, e.before.get()));
  if (e.offset == kRequiresGrad) return quietly(require_gradient(t, e.before.get() == Py_True) ? 0 : -1);
  if (e.offset < 0 && restore_unhashed(t, e.before.get())) return;
  if (e.offset >= 0) {
    PyObject*& place = member_at(t, e.offset);
    Py_XSETREF(place, Py_XNewRef(e.before.get()));
  } else if (PyCell_Check(t)) {
    PyCell_Set(t, e.before.get());
  } else if (PyDict_Check(t)) {
    restore_dict(t, e.before.get());
  } else if (PyList_Check(t)) {
    quietly(PyList_SetSlice(t, 0, PyList_GET_SIZE(t), e.before.get()));
  } else if (PySet_Check(t) && !assign_set(t, e.before.get())) {
    PyErr_Clear();
  }
}

void UndoLog::roll_back() {
  const ErrorAside error;
  for (size_t i = order_.size(); i-- > 0;) restore(order_[i]);
}

}  // namespace vesta::capture
