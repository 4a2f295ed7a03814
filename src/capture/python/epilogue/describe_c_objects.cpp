#include <algorithm>

#include "capture/python/epilogue/describe_kinds.h"
#include "capture/python/epilogue/quiet.h"

namespace vesta::capture {
namespace {

// The method of dict that gives what an iterator of the class iterates; nullptr for other classes.
const char* method_of_iterator(PyTypeObject* type) {
  return type == &PyDictIterKey_Type     ? "keys"
         : type == &PyDictIterValue_Type ? "values"
         : type == &PyDictIterItem_Type  ? "items"
                                         : nullptr;
}

// For an iterator of a dict that promises no more items: it has passed all of them, and the dict has its old size.
bool at_its_end(PyObject* iterator) {
  const Object r = call_quietly(iterator, "__reduce__"_name);  // raises if the size has changed
  if (!r) PyErr_Clear();
  return bool(r);
}

}  // namespace

bool is_dict_iterator(PyTypeObject* type) { return method_of_iterator(type) != nullptr; }

int describe_reduced(Describer& d, PyObject* x) {
  // That of object itself makes a plain object or an instance of a class statement, without what C code holds.
  const bool reducible = Py_TYPE(x) == &PyBaseObject_Type || _PyType_Lookup(Py_TYPE(x), "__reduce__"_name) !=
                                                                 _PyType_Lookup(&PyBaseObject_Type, "__reduce__"_name);
  const Object r = reducible ? call_quietly(x, "__reduce__"_name) : Object();
  if (!r || !PyTuple_Check(r.get()) || PyTuple_GET_SIZE(r.get()) < 2) {
    PyErr_Clear();
    return d.fail(x, Break::NotRebuilt, Py_TYPE(x)->tp_name);
  }
  d.alive.push_back(r);  // until the trace ends: an epilogue would keep its parts alive
  std::vector<int> parts;
  for (Py_ssize_t i = 0; i < std::min<Py_ssize_t>(PyTuple_GET_SIZE(r.get()), 5); ++i) {
    PyObject* part = PyTuple_GET_ITEM(r.get(), i);
    Object items;
    if (i >= 3 && part != Py_None) {  // iterators of what to append, and of keys and values
      items = Object::take(PySequence_List(part));
      if (!items) return PyErr_Clear(), d.fail(x, Break::ItemsNotRead);
      d.alive.push_back(items);
      part = items.get();
    }
    if (!d.values({i >= 2 && part == Py_None ? nullptr : part}, parts)) return -1;
  }
  return d.add(x, {Make::CallState, 0, nullptr, std::move(parts)});
}

int describe_dict_iterator(Describer& d, PyObject* x) {
  PyObject* dict = nullptr;
  Py_TYPE(x)->tp_traverse(
      x,
      [](PyObject* held, void* out) {
        if (PyDict_Check(held)) *static_cast<PyObject**>(out) = held;
        return 0;
      },
      static_cast<void*>(&dict));
  const Py_ssize_t left = dict ? PyObject_LengthHint(x, 0) : 0;
  if (left <= 0 && dict && !at_its_end(x)) dict = nullptr;
  const Py_ssize_t steps = dict ? PyDict_GET_SIZE(dict) - left : 0;
  Py_ssize_t end = 0;
  while (dict && PyDict_Next(dict, &end, nullptr, nullptr)) {
    // A deleted key would count as a step.
    if (end > PyDict_GET_SIZE(dict)) dict = nullptr;
  }
  if (!dict || left < 0 || PyODict_Check(dict)) return PyErr_Clear(), d.fail(x, Break::NotRebuilt, Py_TYPE(x)->tp_name);
  const int part = d.value(dict);
  if (part < 0) return -1;
  const Object name = Object::take(PyUnicode_InternFromString(method_of_iterator(Py_TYPE(x))));
  return d.add(x, {Make::DictIterator, static_cast<int>(steps), d.keep(name.get()), {part}});
}

int describe_bound(Describer& d, PyObject* x, PyObject* self) {
  // Not the attribute of that name: super() may have found the method of another class.
  const Object name = Object::take(PyObject_GetAttrString(x, "__name__"));
  PyObject* mro = Py_TYPE(self)->tp_mro;
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(self));  // some methods read the class that they are bound through
  for (Py_ssize_t i = 0; name && mro && i < PyTuple_GET_SIZE(mro); ++i) {
    PyObject* descriptor = _PyType_Lookup(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i)), name.get());
    if (!descriptor) continue;
    if (Py_TYPE(descriptor) != &PyMethodDescr_Type && Py_TYPE(descriptor) != &PyWrapperDescr_Type) continue;
    const Object get = Object::take(PyObject_GetAttrString(descriptor, "__get__"));
    const Object again = Object::take(get ? PyObject_CallFunctionObjArgs(get.get(), self, type, nullptr) : nullptr);
    if (!again || Py_TYPE(again.get()) != Py_TYPE(x) || PyObject_RichCompareBool(again.get(), x, Py_EQ) != 1) continue;
    const int owner = d.value(self), cls = owner < 0 ? -1 : d.value(type);
    return cls < 0 ? -1 : d.add(x, {Make::Call, 0, nullptr, {d.constant(get.get()), owner, cls}});
  }
  PyErr_Clear();
  return d.fail(x, Break::NotRebuilt, Py_TYPE(x)->tp_name);
}

}  // namespace vesta::capture
