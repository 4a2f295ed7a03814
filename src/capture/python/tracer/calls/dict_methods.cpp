// Methods of dict. On a dict that existed before the trace they read and write one key at a time, so that the other
// keys are neither guarded nor rebuilt. An OrderedDict is written as a whole, and so is a dict that gets a mapping
// which is no plain dict. `update` guards the keys and values of its argument (Calls::may_read_arguments) and what
// these keys compare with (Calls::guard_compared); the dict's own keys need no guard. What the dict held is in the undo
// log before the first write: one copy of the whole dict, which UndoLog::dict (undo_log.cpp) makes for
// ContainerModel::before_write_key or before_write (container_model.cpp). epilogue/writes.cpp describes what has
// changed at the end of the trace, and replays it after each run of the graph.

#include "capture/python/functions/call_handlers.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture::handlers {
namespace {

bool is_of_dict(const Call& c) { return c.owner() && PyDict_Check(c.owner()); }

// The dict was there before the trace. (An OrderedDict has an order of its own, which a write of a key would miss.)
bool is_old(const Trace& t, PyObject* dict) { return !PyODict_Check(dict) && t.sources.find(dict) >= 0; }

bool write(Trace& t, PyObject* dict, PyObject* key, PyObject* value) {
  return t.containers.before_write_key(dict, key, false) && PyDict_SetItem(dict, key, value) == 0;
}

bool may_read_rest(Trace& t, const Call& c) { return t.calls.may_read_arguments(c, c.self ? 0 : 1); }

// A call of pop or setdefault, and whether it reads and writes one key of an old dict.
struct KeyCall {
  KeyCall(Trace& t, const Call& c)
      : dict(c.owner()),
        key(c.rest_count() > 0 ? c.rest()[0] : nullptr),
        value(c.rest_count() == 2 ? c.rest()[1] : nullptr),
        is_one_key(is_old(t, dict) && c.named() == 0 && key && c.rest_count() <= 2 && t.equality.is_source_key(key)) {}
  PyObject *dict, *key, *value;
  bool is_one_key;
};

// Writes the dict as a whole: before_write guards all that it held and logs it, then the method of C itself runs.
Result write_any(Trace& t, const Call& c) {
  return t.containers.before_write(c.owner(), UndoLog::Writes::Any) ? t.calls.plainly(c) : nullptr;
}

// pop and setdefault. On one key of an old dict, `finish` gets the call, what the dict holds under the key (empty: it
// has no such key) and whether it has the key. Any other call writes the dict as a whole.
template <class F>
Result with_one_key(Trace& t, const Call& c, F&& finish) {
  if (!is_of_dict(c)) return std::nullopt;
  if (!may_read_rest(t, c) || (c.rest_count() > 0 && !t.equality.guard_key(c.rest()[0]))) return nullptr;
  const KeyCall k(t, c);
  if (!k.is_one_key) return write_any(t, c);
  const auto x = t.containers.read_dict(k.dict, t.sources.find(k.dict), k.key);
  return x && !*x ? nullptr : finish(k, Object::take(x.value_or(nullptr)));
}

bool update_keys(Trace& t, PyObject* dict, PyObject* mapping) {
  const Object from = Object::take(PyDict_Copy(mapping));
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (from && PyDict_Next(from.get(), &at, &key, &value))
    if (!write(t, dict, key, value)) return false;
  return static_cast<bool>(from);
}

}  // namespace

Result dict_get(Trace& t, const Call& c) {
  const Py_ssize_t count = c.rest_count();
  if (!is_of_dict(c) || c.named() > 0 || count < 1 || count > 2) return std::nullopt;
  PyObject* key = c.rest()[0];
  if (!t.equality.guard_key(key)) return nullptr;
  if (!t.equality.is_source_key(key)) return std::nullopt;
  if (const auto x = t.containers.read_dict(c.owner(), t.sources.find(c.owner()), key)) return x;
  return Py_NewRef(count == 2 ? c.rest()[1] : Py_None);
}

Result dict_pop(Trace& t, const Call& c) {
  return with_one_key(t, c, [&](const KeyCall& k, Object x) -> Result {
    if (!x) return k.value ? Py_NewRef(k.value) : write_any(t, c);
    if (!t.containers.before_write_key(k.dict, k.key, true) || PyDict_DelItem(k.dict, k.key) < 0) return nullptr;
    return x.release();
  });
}

Result dict_set_default(Trace& t, const Call& c) {
  return with_one_key(t, c, [&](const KeyCall& k, Object x) -> Result {
    if (x) return x.release();
    PyObject* value = k.value ? k.value : Py_None;
    return write(t, k.dict, k.key, value) ? Py_NewRef(value) : nullptr;
  });
}

Result dict_update(Trace& t, const Call& c) {
  if (!is_of_dict(c)) return std::nullopt;
  PyObject* dict = c.owner();
  PyObject* const* rest = c.rest();
  const Py_ssize_t count = c.rest_count();
  if (!may_read_rest(t, c) || !t.calls.guard_compared(known_callable(c.function), c)) return nullptr;
  if (!is_old(t, dict) || count > 1 || (count == 1 && !PyDict_CheckExact(rest[0]))) return write_any(t, c);
  if (count == 1 && !update_keys(t, dict, rest[0])) return nullptr;
  for (Py_ssize_t i = 0; i < c.named(); ++i)
    if (!write(t, dict, PyTuple_GET_ITEM(c.names, i), rest[count + i])) return nullptr;
  return Py_NewRef(Py_None);
}

}  // namespace vesta::capture::handlers
