// Methods of dict. On a dict that was there before the trace they read and write one key at a time where they can, so
// that the other keys are neither guarded nor rebuilt.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/tracer/tracer.h"

namespace vesta::capture::handlers {
namespace {

bool is_of_dict(const Call& c) { return c.owner() && PyDict_Check(c.owner()); }

// The dict was there before the trace. (An OrderedDict has an order of its own, which a write of a key would miss.)
bool is_old(const Tracer& t, PyObject* dict) { return !PyODict_Check(dict) && t.sources.find(dict) >= 0; }

bool write(Tracer& t, PyObject* dict, PyObject* key, PyObject* value) {
  return t.writes_key(dict, key, false) && PyDict_SetItem(dict, key, value) == 0;
}

bool may_read_rest(Tracer& t, const Call& c) { return t.calls.may_read_arguments(c, c.self ? 0 : 1); }

// A call of pop or setdefault, and whether it reads and writes one key of an old dict.
struct KeyCall {
  KeyCall(Tracer& t, const Call& c)
      : dict(c.owner()),
        key(c.rest_count() > 0 ? c.rest()[0] : nullptr),
        value(c.rest_count() == 2 ? c.rest()[1] : nullptr),
        is_one_key(is_old(t, dict) && c.named() == 0 && key && c.rest_count() <= 2 && t.is_place_key(key)) {}
  PyObject *dict, *key, *value;
  bool is_one_key;
};

bool may_read_key(Tracer& t, const Call& c) {
  return may_read_rest(t, c) && (c.rest_count() == 0 || t.guard_by_value(c.rest()[0]));
}

Result write_any(Tracer& t, const Call& c) {
  return t.writes(c.owner(), UndoLog::Writes::Any) ? t.calls.plainly(c) : nullptr;
}

bool update_keys(Tracer& t, PyObject* dict, PyObject* mapping) {
  const Object from = Object::take(PyDict_Copy(mapping));
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (from && PyDict_Next(from.get(), &at, &key, &value))
    if (!write(t, dict, key, value)) return false;
  return static_cast<bool>(from);
}

}  // namespace

Result dict_get(Tracer& t, const Call& c) {
  const Py_ssize_t count = c.rest_count();
  if (!is_of_dict(c) || c.named() > 0 || count < 1 || count > 2) return std::nullopt;
  PyObject* key = c.rest()[0];
  if (!t.guard_by_value(key)) return nullptr;
  if (!t.is_place_key(key)) return std::nullopt;
  bool found = false;
  PyObject* x = t.read_dict(c.owner(), t.sources.find(c.owner()), key, &found);
  if (found || PyErr_Occurred()) return x;
  return Py_NewRef(count == 2 ? c.rest()[1] : Py_None);
}

Result dict_pop(Tracer& t, const Call& c) {
  if (!is_of_dict(c)) return std::nullopt;
  if (!may_read_key(t, c)) return nullptr;
  const KeyCall k(t, c);
  if (!k.is_one_key) return write_any(t, c);
  bool found = false;
  Object x = Object::take(t.read_dict(k.dict, t.sources.find(k.dict), k.key, &found));
  if (PyErr_Occurred()) return nullptr;
  if (found) {
    if (!t.writes_key(k.dict, k.key, true) || PyDict_DelItem(k.dict, k.key) < 0) return nullptr;
    return x.release();
  }
  return k.value ? Py_NewRef(k.value) : write_any(t, c);
}

Result dict_set_default(Tracer& t, const Call& c) {
  if (!is_of_dict(c)) return std::nullopt;
  if (!may_read_key(t, c)) return nullptr;
  const KeyCall k(t, c);
  if (!k.is_one_key) return write_any(t, c);
  bool found = false;
  Object x = Object::take(t.read_dict(k.dict, t.sources.find(k.dict), k.key, &found));
  if (PyErr_Occurred()) return nullptr;
  if (found) return x.release();
  PyObject* value = k.value ? k.value : Py_None;
  return write(t, k.dict, k.key, value) ? Py_NewRef(value) : nullptr;
}

Result dict_update(Tracer& t, const Call& c) {
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
