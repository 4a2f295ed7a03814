#include "capture/python/epilogue/describe_kinds.h"
#include "capture/python/functions/hashed_keys.h"
#include "capture/python/tracer/undo_log.h"
#include "capture/python/values/classes.h"
#include "capture/python/values/keys.h"

namespace vesta::capture {
namespace {

constexpr Py_ssize_t kMostItems = 1 << 16;

}  // namespace

int describe_container(Describer& d, PyObject* x) {
  const Make make = PyList_Check(x)    ? Make::List
                    : PyTuple_Check(x) ? Make::Tuple
                    : PySet_Check(x)   ? Make::Set
                                       : Make::FrozenSet;
  // The number comes before the parts: a list may contain itself.
  const int id = d.add(x, {make, 0, nullptr, {}});
  const Object items = Object::take(items_of(x));
  if (!items) return PyErr_Clear(), d.fail(x, Break::ItemsNotRead);
  if (PyTuple_GET_SIZE(items.get()) > kMostItems) return d.fail(x, Break::ManyItemsAtExit);
  std::vector<int> parts;
  for (PyObject* item : span_of(items.get())) {
    if (PyAnySet_Check(x) && is_hashed_by_program(item)) return d.fail(x, Break::KeysWithHashAtExit);
    if (!d.values({item}, parts)) return -1;
  }
  d[id].parts = std::move(parts);
  return id;
}

int describe_dict(Describer& d, PyObject* x, Make make) {
  const int id = d.add(x, {make, 0, nullptr, {}});
  const Object keys = Object::take(keys_of(x));
  if (!keys) return PyErr_Clear(), d.fail(x, Break::ItemsNotRead);
  std::vector<int> parts;
  for (PyObject* key : span_of(keys.get())) {
    if (is_hashed_by_program(key)) return d.fail(x, Break::KeysWithHashAtExit);
    PyObject* item = PyDict_GetItemWithError(x, key);
    if (!item) return PyErr_Clear(), d.fail(x, Break::ItemsNotRead);
    if (!d.values({key, item}, parts)) return -1;
  }
  d[id].parts = std::move(parts);
  return id;
}

Py_ssize_t fields_of_struct_sequence(PyTypeObject* type) {
  if (type->tp_base != &PyTuple_Type || is_python_class(type)) return 0;
  PyObject* fields = _PyType_Lookup(type, "n_fields"_name);
  return fields && PyLong_CheckExact(fields) ? PyLong_AsSsize_t(fields) : 0;
}

int describe_struct_sequence(Describer& d, PyObject* x, Py_ssize_t fields) {
  Reconstruction r{Make::StructSequence, 0, d.keep(reinterpret_cast<PyObject*>(Py_TYPE(x))), {}};
  for (Py_ssize_t i = 0; i < fields; ++i)
    if (!d.values({PyStructSequence_GetItem(x, i)}, r.parts)) return -1;
  return d.add(x, std::move(r));
}

}  // namespace vesta::capture
