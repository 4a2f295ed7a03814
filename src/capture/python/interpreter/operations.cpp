#include "capture/python/interpreter/operations.h"

#include "capture/python/interpreter/handlers.h"

extern "C" PyAPI_FUNC(int) _PyDict_MergeEx(PyObject*, PyObject*, int);
extern "C" PyAPI_FUNC(int) _PySet_Update(PyObject*, PyObject*);

namespace vesta::capture {

PyObject* Operations::join(PyObject* const* pieces, int n) {
  Object empty = Object::take(PyUnicode_FromStringAndSize(nullptr, 0));
  Object tuple = Object::take(PyTuple_New(n));
  if (!empty || !tuple) return nullptr;
  for (int i = 0; i < n; ++i) PyTuple_SET_ITEM(tuple.get(), i, Py_NewRef(pieces[i]));
  return PyUnicode_Join(empty.get(), tuple.get());
}

PyObject* Operations::load_global(Frame* f, PyObject* name) {
  PyObject* x = nullptr;
  int found = find_item(globals_of(f), name, &x);
  if (found == 0) found = find_item(builtins_of(f), name, &x);
  if (found == 0) raise_name_error(name);
  return x;
}

int Operations::store_global(Frame* f, PyObject* name, PyObject* value) {
  if (value != nullptr) return PyDict_SetItem(globals_of(f), name, value);
  if (PyDict_DelItem(globals_of(f), name) == 0) return 0;
  if (PyErr_ExceptionMatches(PyExc_KeyError)) raise_name_error(name);
  return -1;
}

int Operations::set_attr(PyObject* owner, PyObject* name, PyObject* value) {
  return PyObject_SetAttr(owner, name, value);
}

int Operations::set_item(PyObject* container, PyObject* key, PyObject* value) {
  return value != nullptr ? PyObject_SetItem(container, key, value) : PyObject_DelItem(container, key);
}

namespace {

PyObject* power(PyObject* x, PyObject* y) { return PyNumber_Power(x, y, Py_None); }
PyObject* power_in_place(PyObject* x, PyObject* y) { return PyNumber_InPlacePower(x, y, Py_None); }

}  // namespace

const binaryfunc binary_functions[] = {
    PyNumber_Add,
    PyNumber_And,
    PyNumber_FloorDivide,
    PyNumber_Lshift,
    PyNumber_MatrixMultiply,
    PyNumber_Multiply,
    PyNumber_Remainder,
    PyNumber_Or,
    power,
    PyNumber_Rshift,
    PyNumber_Subtract,
    PyNumber_TrueDivide,
    PyNumber_Xor,
    PyNumber_InPlaceAdd,
    PyNumber_InPlaceAnd,
    PyNumber_InPlaceFloorDivide,
    PyNumber_InPlaceLshift,
    PyNumber_InPlaceMatrixMultiply,
    PyNumber_InPlaceMultiply,
    PyNumber_InPlaceRemainder,
    PyNumber_InPlaceOr,
    power_in_place,
    PyNumber_InPlaceRshift,
    PyNumber_InPlaceSubtract,
    PyNumber_InPlaceTrueDivide,
    PyNumber_InPlaceXor,
};

PyObject* Operations::binary(int op, PyObject* left, PyObject* right) { return binary_functions[op](left, right); }

PyObject* Operations::unary(Unary op, PyObject* x) {
  switch (op) {
    case Unary::Positive: return PyNumber_Positive(x);
    case Unary::Negative: return PyNumber_Negative(x);
    case Unary::Invert: return PyNumber_Invert(x);
    case Unary::Not: break;
  }
  int truth = is_true(x);
  return truth < 0 ? nullptr : boolean(truth == 0);
}

int Operations::unpack(PyObject* x, int before, int after, PyObject** out) {
  PyObject** const begin = out;
  auto fail = [&] {
    while (out > begin) Py_DECREF(*--out);
    return -1;
  };
  if (after < 0 && (PyTuple_CheckExact(x) || PyList_CheckExact(x)) && PySequence_Fast_GET_SIZE(x) == before) {
    for (int i = 0; i < before; ++i) *out++ = Py_NewRef(PySequence_Fast_GET_ITEM(x, i));
    return 0;
  }
  Object iterator = Object::take(get_iter(x));
  if (!iterator) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) && Py_TYPE(x)->tp_iter == nullptr && !PySequence_Check(x))
      PyErr_Format(PyExc_TypeError, "cannot unpack non-iterable %.200s object", Py_TYPE(x)->tp_name);
    return -1;
  }
  for (int i = 0; i < before; ++i) {
    PyObject* item = next(iterator.get());
    if (item == nullptr) {
      if (PyErr_Occurred() == nullptr) {
        if (after < 0) {
          PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected %d, got %d)", before, i);
        } else {
          PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %d)", before + after,
                       i);
        }
      }
      return fail();
    }
    *out++ = item;
  }
  if (after < 0) {
    Object more = Object::take(next(iterator.get()));
    if (!more) return PyErr_Occurred() != nullptr ? fail() : 0;
    PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d)", before);
    return fail();
  }
  Object list = Object::take(PyList_New(0));
  if (!list || extend_list(list.get(), iterator.get()) < 0) return fail();
  Py_ssize_t size = PyList_GET_SIZE(list.get());
  if (size < after) {
    PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %zd)", before + after,
                 before + size);
    return fail();
  }
  PyObject* all = list.get();
  *out++ = list.release();
  for (Py_ssize_t i = size - after; i < size; ++i) *out++ = Py_NewRef(PyList_GET_ITEM(all, i));
  return PyList_SetSlice(all, size - after, size, nullptr) < 0 ? fail() : 0;
}

PyObject* Operations::lookup_special(PyObject* obj, PyObject* name) {
  PyTypeObject* type = Py_TYPE(obj);
  PyObject* x = _PyType_Lookup(type, name);
  if (x == nullptr) return nullptr;
  Object held = Object::share(x);
  descrgetfunc bind = Py_TYPE(x)->tp_descr_get;
  return bind != nullptr ? bind(x, obj, reinterpret_cast<PyObject*>(type)) : held.release();
}

PyObject* Operations::format(PyObject* x, PyObject* spec) {
  return spec == nullptr && PyUnicode_CheckExact(x) ? Py_NewRef(x) : PyObject_Format(x, spec);
}

PyObject* Operations::convert(PyObject* x, Conversion kind) {
  switch (kind) {
    case Conversion::None: break;
    case Conversion::Str: return PyObject_Str(x);
    case Conversion::Repr: return PyObject_Repr(x);
    case Conversion::Ascii: return PyObject_ASCII(x);
  }
  return Py_NewRef(x);
}

int Operations::extend_list(PyObject* list, PyObject* iterable) {
#if PY_VERSION_HEX >= 0x030d0000
  bool extended = PyList_Extend(list, iterable) == 0;
#else
  Object none = Object::take(_PyList_Extend(reinterpret_cast<PyListObject*>(list), iterable));
  bool extended = static_cast<bool>(none);
#endif
  if (extended) return 0;
  if (PyErr_ExceptionMatches(PyExc_TypeError) && Py_TYPE(iterable)->tp_iter == nullptr && !PySequence_Check(iterable))
    PyErr_Format(PyExc_TypeError, "Value after * must be an iterable, not %.200s", Py_TYPE(iterable)->tp_name);
  return -1;
}

int Operations::update_set(PyObject* set, PyObject* iterable) { return _PySet_Update(set, iterable); }

int Operations::update_dict(PyObject* dict, PyObject* mapping) {
  if (PyDict_Update(dict, mapping) == 0) return 0;
  if (PyErr_ExceptionMatches(PyExc_AttributeError))
    PyErr_Format(PyExc_TypeError, "'%.200s' object is not a mapping", Py_TYPE(mapping)->tp_name);
  return -1;
}

int Operations::merge_keywords(PyObject* callable, PyObject* dict, PyObject* mapping) {
  if (_PyDict_MergeEx(dict, mapping, 2) == 0) return 0;
  if (PyErr_ExceptionMatches(PyExc_AttributeError)) {  // of keys()
    PyErr_Clear();
    Object what = Object::take(describe_callable(callable));
    if (what)
      PyErr_Format(PyExc_TypeError, "%U argument after ** must be a mapping, not %.200s", what.get(),
                   Py_TYPE(mapping)->tp_name);
  } else if (PyErr_ExceptionMatches(PyExc_KeyError)) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    // In 3.11 an error of C code has no instance yet. An instance was raised by the mapping itself, and is kept.
    PyObject* args =
        python_minor >= 12 && value != nullptr ? reinterpret_cast<PyBaseExceptionObject*>(value)->args : value;
    if (args == nullptr || !PyTuple_Check(args) || PyTuple_GET_SIZE(args) != 1) {
      PyErr_Restore(type, value, traceback);
      return -1;
    }
    Object what = Object::take(describe_callable(callable));
    if (what)
      PyErr_Format(PyExc_TypeError, "%U got multiple values for keyword argument '%S'", what.get(),
                   PyTuple_GET_ITEM(args, 0));
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
  }
  return -1;
}

PyObject* Operations::call(PyObject* callable, PyObject* const* args, size_t flags, PyObject* keyword_names) {
  return PyObject_Vectorcall(callable, args, flags, keyword_names);
}

PyObject* Operations::call_unpacked(PyObject* callable, PyObject* args_tuple, PyObject* keywords) {
  return PyObject_Call(callable, args_tuple, keywords);
}

PyObject* Operations::import_name(Frame* f, PyObject* name, PyObject* fromlist, PyObject* level) {
  Object function;
  int found = find_item(builtins_of(f), "__import__"_name, function.out());
  if (found == 0) PyErr_SetString(PyExc_ImportError, "__import__ not found");
  if (found <= 0) return nullptr;
  PyObject* locals = locals_of(f);
  PyObject* args[] = {name, globals_of(f), locals != nullptr ? locals : Py_None, fromlist, level};
  return call(function.get(), args, 5, nullptr);
}

PyObject* Operations::import_from(PyObject* module, PyObject* name) {
  PyObject* x = nullptr;
  if (find_attr(module, name, &x) != 0) return x;
  // A circular import: the submodule may be there before the attribute.
  Object package = Object::take(PyObject_GetAttrString(module, "__name__"));
  if (package && PyUnicode_Check(package.get())) {
    Object full = Object::take(PyUnicode_FromFormat("%U.%U", package.get(), name));
    if (!full) return nullptr;
    x = PyImport_GetModule(full.get());
    if (x != nullptr || PyErr_Occurred() != nullptr) return x;
  }
  PyErr_Clear();
  raise_cannot_import(module, name);
  return nullptr;
}

}  // namespace vesta::capture
