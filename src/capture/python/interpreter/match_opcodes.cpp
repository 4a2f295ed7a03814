// Instructions of match statements.
#include "capture/python/interpreter/handlers.h"

namespace vesta::capture {
namespace {

Step get_len(Evaluation& e, int) {
  Py_ssize_t length = e.operations.length(peek(e.frame, 1));
  return length < 0 ? Step::Error : replace(e, 0, PyLong_FromSsize_t(length));
}

template <unsigned long flag>
Step match_kind(Evaluation& e, int) {
  return replace(e, 0, boolean((Py_TYPE(peek(e.frame, 1))->tp_flags & flag) != 0));
}

// Adds x to the set of names that the pattern has used; false with an error set if x is in it.
bool first_use(PyObject* seen, PyObject* x, PyObject* error, const char* message, const char* type) {
  int found = PySet_Contains(seen, x);
  if (found == 0) return PySet_Add(seen, x) == 0;
  if (found > 0) {
    if (type != nullptr) {
      PyErr_Format(error, message, type, x);
    } else {
      PyErr_Format(error, message, x);
    }
  }
  return false;
}

// A tuple of the values of the keys, or None. Uses the mapping's get(): a subscript may add the key.
PyObject* match_mapping_keys(Evaluation& e, PyObject* mapping, PyObject* keys) {
  Py_ssize_t count = PyTuple_GET_SIZE(keys);
  if (count == 0) return PyTuple_New(0);
  Object get = Object::take(e.operations.get_attr(mapping, "get"_name));
  if (!get) return nullptr;
  Object seen = Object::take(PySet_New(nullptr)),
         missing = Object::take(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type))),
         values = Object::take(PyTuple_New(count));
  if (!seen || !missing || !values) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    if (!first_use(seen.get(), key, PyExc_ValueError, "mapping pattern checks duplicate key (%R)", nullptr))
      return nullptr;
    PyObject* args[] = {nullptr, key, missing.get()};
    Object value = Object::take(e.operations.call(get.get(), args + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
    if (!value) return nullptr;
    if (value.get() == missing.get()) return Py_NewRef(Py_None);
    PyTuple_SET_ITEM(values.get(), i, value.release());
  }
  return values.release();
}

Step match_keys(Evaluation& e, int) { return replace(e, 0, match_mapping_keys(e, peek(e.frame, 2), peek(e.frame, 1))); }

// Appends the subject's attribute to `attributes`. 1: done, 0: there is none, -1: an error is set.
int append_attribute(Evaluation& e, PyObject* subject, PyTypeObject* type, PyObject* name, PyObject* seen,
                     PyObject* attributes) {
  if (!first_use(seen, name, PyExc_TypeError, "%s() got multiple sub-patterns for attribute %R", type->tp_name))
    return -1;
  Object x = Object::take(e.operations.get_attr(subject, name));
  if (!x) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
    PyErr_Clear();
    return 0;
  }
  return PyList_Append(attributes, x.get()) < 0 ? -1 : 1;
}

// The `count` positional patterns of a class pattern. 1: they match, 0: they do not, -1: an error is set.
int append_positional(Evaluation& e, PyObject* subject, PyTypeObject* type, Py_ssize_t count, PyObject* seen,
                      PyObject* attributes) {
  Object names = Object::take(e.operations.get_attr(reinterpret_cast<PyObject*>(type), "__match_args__"_name));
  bool whole = false;  // the only pattern matches the subject itself
  if (names) {
    if (!PyTuple_CheckExact(names.get()))
      return fail(PyExc_TypeError, "%s.__match_args__ must be a tuple (got %s)", type->tp_name,
                  Py_TYPE(names.get())->tp_name);
  } else {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
    PyErr_Clear();
    names = Object::take(PyTuple_New(0));
    if (!names) return -1;
    whole = PyType_HasFeature(type, _Py_TPFLAGS_MATCH_SELF) != 0;
  }
  Py_ssize_t allowed = whole ? 1 : PyTuple_GET_SIZE(names.get());
  if (allowed < count)
    return fail(PyExc_TypeError, "%s() accepts %zd positional sub-pattern%s (%zd given)", type->tp_name, allowed,
                allowed == 1 ? "" : "s", count);
  if (whole) return PyList_Append(attributes, subject) < 0 ? -1 : 1;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names.get(), i);
    if (!PyUnicode_CheckExact(name))
      return fail(PyExc_TypeError, "__match_args__ elements must be strings (got %s)", Py_TYPE(name)->tp_name);
    int found = append_attribute(e, subject, type, name, seen, attributes);
    if (found <= 0) return found;
  }
  return 1;
}

// A tuple of the attributes that the patterns match, or None.
PyObject* match_class_attributes(Evaluation& e, PyObject* subject, PyObject* type, Py_ssize_t count, PyObject* names) {
  if (!PyType_Check(type)) return PyErr_Format(PyExc_TypeError, "called match pattern must be a type");
  int instance = e.operations.is_instance(subject, type);
  if (instance < 0) return nullptr;
  if (instance == 0) return Py_NewRef(Py_None);
  Object seen = Object::take(PySet_New(nullptr)), attributes = Object::take(PyList_New(0));
  if (!seen || !attributes) return nullptr;
  PyTypeObject* klass = reinterpret_cast<PyTypeObject*>(type);
  int found = count > 0 ? append_positional(e, subject, klass, count, seen.get(), attributes.get()) : 1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names) && found > 0; ++i)
    found = append_attribute(e, subject, klass, PyTuple_GET_ITEM(names, i), seen.get(), attributes.get());
  if (found < 0) return nullptr;
  return found == 0 ? Py_NewRef(Py_None) : PyList_AsTuple(attributes.get());
}

Step match_class(Evaluation& e, int oparg) {  // operands: the subject, the class, the names of the keyword patterns
  return replace(e, 3, match_class_attributes(e, peek(e.frame, 3), peek(e.frame, 2), oparg, peek(e.frame, 1)));
}

constexpr Row kMatchRows[] = {
    {"GET_LEN", 11, 13, get_len},
    {"MATCH_MAPPING", 11, 13, match_kind<Py_TPFLAGS_MAPPING>},
    {"MATCH_SEQUENCE", 11, 13, match_kind<Py_TPFLAGS_SEQUENCE>},
    {"MATCH_KEYS", 11, 13, match_keys},
    {"MATCH_CLASS", 11, 13, match_class},
};

}  // namespace

std::span<const Row> match_rows() { return kMatchRows; }

}  // namespace vesta::capture
