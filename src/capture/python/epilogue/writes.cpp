#include "capture/python/epilogue/writes.h"

#include "capture/python/functions/hashed_keys.h"
#include "capture/python/tensors/tensor_data.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/keys.h"

namespace vesta::capture {
namespace {

// The keys that were deleted. `kept_order`: the keys that stayed come first, in their old order.
std::vector<PyObject*> deleted_keys(PyObject* before, PyObject* now, PyObject* dict, bool& kept_order) {
  const Py_ssize_t n = PyTuple_GET_SIZE(now);
  kept_order = true;
  Py_ssize_t i = 0;
  std::vector<PyObject*> gone;
  for (PyObject* key : span_of(before)) {
    if (!PyDict_GetItemWithError(dict, key))
      gone.push_back(key);
    else if (i < n && PyTuple_GET_ITEM(now, i) == key)
      ++i;
    else
      kept_order = false;
  }
  PyErr_Clear();
  return gone;
}

}  // namespace

void WriteDescriber::add(SideEffect effect, std::string text) {
  objects_.epilogue.effects.push_back(std::move(effect));
  texts.push_back(std::move(text));
}

bool WriteDescriber::describe(const UndoLog::Entry& e) {
  PyObject* x = e.target.get();
  const int source = objects_.trace.sources.find(x);
  if (source < 0) return true;  // made in the trace: its reconstruction, if there is one, says what it holds
  const bool requires_grad = e.offset == UndoLog::kRequiresGrad;
  const Object required = Object::take(requires_grad ? PyObject_GetAttr(x, "requires_grad"_name) : nullptr);
  if (requires_grad && required.get() == e.before.get()) return true;
  const int target = objects_.value(x);
  if (target < 0) return false;
  if (requires_grad) {
    const int v = required ? objects_.value(required.get()) : -1;
    add({Write::RequiresGrad, target, -1, v}, objects_.trace.sources.text(source, code_) + ".requires_grad");
    return v >= 0;
  }
  if (e.offset == UndoLog::kData) {
    objects_.alive.push_back(Object::take(data_of(x)));
    const int v = objects_.alive.back() ? objects_.value(objects_.alive.back().get()) : -1;
    add({Write::Data, target, -1, v}, objects_.trace.sources.text(source, code_) + ".data");
    return v >= 0;
  }
  if (e.offset == UndoLog::kGradient) {
    const Object now = Object::take(PyObject_GetAttr(x, "grad"_name));
    const int v = now ? objects_.value(now.get()) : -1;
    add({Write::Gradient, target, -1, v}, objects_.trace.sources.text(source, code_) + ".grad");
    return v >= 0;
  }
  if (e.offset < 0 && PyDict_Check(x)) return dict(target, e);
  if (e.offset < 0 && !PyCell_Check(x)) return items(target, e);
  const bool slot = e.offset >= 0;
  const int v = objects_.value(slot ? member_at(x, e.offset) : PyCell_GET(x));
  const std::string& text = objects_.trace.sources.text(source, code_);
  add({slot ? Write::Member : Write::Cell, target, -1, v, slot ? e.offset : 0}, slot ? text + "'s slot" : text);
  return v >= 0;
}

// Of a dict: `d[k] = v`, `del d[k]`, or all items in a new order.
bool WriteDescriber::dict(int target, const UndoLog::Entry& e) {
  PyObject *before = e.before.get(), *now = e.target.get();
  const Trace& trace = objects_.trace;
  const int owner = trace.sources.find(now);
  const auto text_of = [&](PyObject* key) { return trace.sources.item_text(owner, key, code_); };
  if (has_keys_of_program(now)) return fail(now, Break::KeysWithHashAtExit);
  const Object old_keys = Object::take(keys_of(before)), keys = Object::take(keys_of(now));
  if (!old_keys || !keys) return PyErr_Clear(), fail(now, Break::ItemsNotRead);
  bool kept_order = true;
  const std::vector<PyObject*> gone = deleted_keys(old_keys.get(), keys.get(), now, kept_order);
  if (!kept_order && !objects_.trace.containers.track_contents(now, 1)) return fail(now, Break::ItemsNotRead);
  SideEffect all{Write::DictAssign, target};
  for (PyObject* key : span_of(keys.get())) {
    PyObject* item = PyDict_GetItemWithError(now, key);
    if (kept_order && PyDict_GetItemWithError(before, key) == item && !e.wrote(key)) continue;
    std::vector<int> pair;
    if (!objects_.values({key, item}, pair)) return false;
    if (kept_order)
      add({Write::DictSet, target, pair[0], pair[1]}, text_of(key));
    else
      all.parts.insert(all.parts.end(), pair.begin(), pair.end());
  }
  if (!kept_order) {
    add(std::move(all), trace.sources.text(owner, code_) + " in another order");
    return true;
  }
  for (PyObject* key : gone) {
    const int number = objects_.value(key);
    if (number < 0) return false;
    add({Write::DictDelete, target, number}, "del " + text_of(key));
  }
  return true;
}

// Of a list or set.
bool WriteDescriber::items(int target, const UndoLog::Entry& e) {
  PyObject* x = e.target.get();
  const Object now = Object::take(items_of(x));
  if (!now) return PyErr_Clear(), false;
  const Py_ssize_t n = PyTuple_GET_SIZE(now.get()), old = PyTuple_GET_SIZE(e.before.get());
  Py_ssize_t same = 0;
  while (same < n && same < old && PyTuple_GET_ITEM(now.get(), same) == PyTuple_GET_ITEM(e.before.get(), same)) ++same;
  if (same == n && same == old) return true;
  const bool append = PyList_Check(x) && same == old && e.only_appended;
  SideEffect effect{append ? Write::ListAppend : PyList_Check(x) ? Write::ListAssign : Write::SetAssign, target};
  for (Py_ssize_t i = append ? old : 0; i < n; ++i) {
    PyObject* item = PyTuple_GET_ITEM(now.get(), i);
    if (PyAnySet_Check(x) && is_hashed_by_program(item)) return fail(item, Break::KeysWithHashAtExit);
    if (!objects_.values({item}, effect.parts)) return false;
  }
  add(std::move(effect), "items of " + objects_.trace.sources.text(objects_.trace.sources.find(x), code_));
  return true;
}

bool replay(const SideEffect& e, Reconstructor& objects) {
  PyObject* target = objects.make(e.target);
  if (!target) return PyErr_Occurred() == nullptr;
  PyObject* key = e.key >= 0 ? objects.make(e.key) : nullptr;
  PyObject* value = e.value >= 0 ? objects.make(e.value) : nullptr;
  Object items;  // of a list or set
  if (e.write >= Write::ListAppend && e.write <= Write::SetAssign) {
    items = Object::take(PyList_New(0));
    if (!items || !objects.fill(items.get(), e.parts)) return false;
  }
  if (PyErr_Occurred()) return false;
  switch (e.write) {
    case Write::DictSet: return set_dict_item(target, key, value) == 0;
    case Write::DictDelete: return delete_dict_item(target, key) == 0;
    case Write::DictAssign: return clear_dict(target) == 0 && objects.fill(target, e.parts);
    case Write::ListAppend: {
      const Py_ssize_t end = PyList_GET_SIZE(target);
      return PyList_SetSlice(target, end, end, items.get()) == 0;
    }
    case Write::ListAssign: return PyList_SetSlice(target, 0, PyList_GET_SIZE(target), items.get()) == 0;
    case Write::SetAssign: return assign_set(target, items.get());
    case Write::Cell: return PyCell_Set(target, value) == 0;
    case Write::Data: return PyObject_SetAttr(target, "data"_name, value) == 0;
    case Write::RequiresGrad: return PyObject_SetAttr(target, "requires_grad"_name, value) == 0;
    case Write::RetainedGradient:
      if (!Object::take(PyObject_CallMethodNoArgs(target, "retain_grad"_name))) return false;
      [[fallthrough]];
    case Write::Gradient: return PyObject_SetAttr(target, "grad"_name, value) == 0;
    case Write::Hook: return static_cast<bool>(Object::take(PyObject_CallMethod(target, "register_hook", "O", value)));
    case Write::NodeHook: {
      const Object node = Object::take(PyObject_GetAttr(target, "grad_fn"_name));
      return node && Object::take(PyObject_CallMethod(node.get(), "register_hook", "O", value));
    }
    case Write::Call: return static_cast<bool>(Object::take(PyObject_Call(target, value, key)));
    case Write::Member: {
      Py_XSETREF(member_at(target, e.offset), Py_XNewRef(value));
      return true;
    }
  }
  return false;
}

}  // namespace vesta::capture
