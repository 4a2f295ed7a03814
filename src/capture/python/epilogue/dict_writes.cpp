// Writes to a dict: `d[k] = v`, `del d[k]`, and a new order of keys.
#include "capture/python/epilogue/writes.h"
#include "capture/python/functions/hashed_keys.h"
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

bool replay_dict(const SideEffect& e, PyObject* dict, Reconstructor& objects) {
  switch (e.write) {
    case Write::DictSet: return set_dict_item(dict, objects.make(e.key), objects.make(e.value)) == 0;
    case Write::DictDelete: return delete_dict_item(dict, objects.make(e.key)) == 0;
    case Write::DictAssign: return clear_dict(dict) == 0 && objects.fill(dict, e.parts);
    default: return false;
  }
}

}  // namespace vesta::capture
