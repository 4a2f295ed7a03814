#include "capture/python/interpreter/handlers.h"

namespace vesta::capture {
namespace {

bool is_group(PyObject* x) {
  return PyObject_TypeCheck(x, reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup)) != 0;
}
PyObject* members(PyObject* group) { return reinterpret_cast<PyBaseExceptionGroupObject*>(group)->excs; }

PyObject* make_group(PyObject* exceptions) {
  return PyObject_CallFunction(PyExc_BaseExceptionGroup, "sO", "", exceptions);
}

int add_leaf_ids(PyObject* x, PyObject* ids) {
  if (x == Py_None) return 0;
  if (!is_group(x)) {
    Object id = Object::take(PyLong_FromVoidPtr(x));
    return id ? PySet_Add(ids, id.get()) : -1;
  }
  if (Py_EnterRecursiveCall(" in collect_exception_group_leaf_ids")) return -1;
  int status = 0;
  for (PyObject* member : span_of(members(x)))
    if (status == 0) status = add_leaf_ids(member, ids);
  Py_LeaveRecursiveCall();
  return status;
}

// A group like `group` that holds these exceptions alone.
PyObject* derive(PyObject* group, PyObject* exceptions) {
  Object part = Object::take(PyObject_CallMethod(group, "derive", "(O)", exceptions));
  if (!part) return nullptr;
  if (!is_group(part.get()))
    return PyErr_Format(PyExc_TypeError, "derive must return an instance of BaseExceptionGroup");
  Object traceback = Object::take(PyException_GetTraceback(group));
  if (traceback && PyException_SetTraceback(part.get(), traceback.get()) < 0) return nullptr;
  PyException_SetContext(part.get(), PyException_GetContext(group));
  PyException_SetCause(part.get(), PyException_GetCause(group));
  if (PyObject* notes = reinterpret_cast<PyBaseExceptionObject*>(group)->notes; notes && PySequence_Check(notes)) {
    Object copy = Object::take(PySequence_List(notes));
    if (!copy || PyObject_SetAttrString(part.get(), "__notes__", copy.get()) < 0) return nullptr;
  }
  return part.release();
}

// The part of a group whose leaves have these ids; None if no leaf has.
PyObject* project(PyObject* group, PyObject* ids) {
  Object list = Object::take(PyList_New(0));
  if (!list) return nullptr;
  for (PyObject* x : span_of(members(group))) {
    Object part;
    if (is_group(x)) {
      if (Py_EnterRecursiveCall(" in exceptiongroup_split_recursive")) return nullptr;
      part = Object::take(project(x, ids));
      Py_LeaveRecursiveCall();
      if (!part) return nullptr;
      if (part.get() == Py_None) continue;
    } else {
      Object id = Object::take(PyLong_FromVoidPtr(x));
      int found = id ? PySet_Contains(ids, id.get()) : -1;
      if (found < 0) return nullptr;
      if (found == 0) continue;
      part = Object::share(x);
    }
    if (PyList_Append(list.get(), part.get()) < 0) return nullptr;
  }
  return PyList_GET_SIZE(list.get()) > 0 ? derive(group, list.get()) : Py_NewRef(Py_None);
}

// The clause raised the exceptions that it caught, and no other.
bool is_same(PyObject* a, PyObject* b) {
  auto* x = reinterpret_cast<PyBaseExceptionObject*>(a);
  auto* y = reinterpret_cast<PyBaseExceptionObject*>(b);
  return x->notes == y->notes && x->traceback == y->traceback && x->cause == y->cause && x->context == y->context;
}

}  // namespace

int split_group(PyObject* exception, PyObject* types, Object& match, Object& rest) {
  match = Object::share(Py_None);
  rest = Object::share(Py_None);
  if (exception == Py_None) return 0;
  if (PyErr_GivenExceptionMatches(exception, types)) {
    if (is_group(exception)) {
      match = Object::share(exception);
      return 0;
    }
    Object single = Object::take(PyTuple_Pack(1, exception));
    Object group = Object::take(single ? make_group(single.get()) : nullptr);
    if (!group) return -1;
    match = std::move(group);
    return 0;
  }
  if (!is_group(exception)) {
    rest = Object::share(exception);
    return 0;
  }
  Object pair = Object::take(PyObject_CallMethod(exception, "split", "(O)", types));
  if (!pair) return -1;
  if (!PyTuple_CheckExact(pair.get()) || PyTuple_GET_SIZE(pair.get()) < 2)
    return PyErr_Format(PyExc_TypeError, "%.200s.split must return a 2-tuple", Py_TYPE(exception)->tp_name), -1;
  match = Object::share(PyTuple_GET_ITEM(pair.get(), 0));
  rest = Object::share(PyTuple_GET_ITEM(pair.get(), 1));
  return 0;
}

PyObject* prep_reraise_star(PyObject* original, PyObject* raised) {
  Py_ssize_t count = PyList_GET_SIZE(raised);
  if (count == 0) return Py_NewRef(Py_None);
  if (!is_group(original)) return Py_NewRef(PyList_GET_ITEM(raised, 0));  // at most one clause handled it
  Object fresh = Object::take(PyList_New(0)), ids = Object::take(PySet_New(nullptr));
  if (!fresh || !ids) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* x = PyList_GET_ITEM(raised, i);
    if (x == Py_None) continue;
    int status = is_same(x, original) ? add_leaf_ids(x, ids.get()) : PyList_Append(fresh.get(), x);
    if (status < 0) return nullptr;
  }
  Object again = Object::take(project(original, ids.get()));
  if (!again || PyList_GET_SIZE(fresh.get()) == 0) return again.release();
  if (again.get() != Py_None && PyList_Append(fresh.get(), again.get()) < 0) return nullptr;
  constexpr bool wraps_single = PY_VERSION_HEX < 0x030b0400;
  if (PyList_GET_SIZE(fresh.get()) == 1 && !wraps_single) return Py_NewRef(PyList_GET_ITEM(fresh.get(), 0));
  return make_group(fresh.get());
}

}  // namespace vesta::capture
