#include "capture/python/interpreter/handlers.h"

namespace vesta::capture {
namespace {

Step import_name(Evaluation& e, int oparg) {
  return replace(e, 2, e.operations.import_name(e.frame, name_at(e, oparg), peek(e.frame, 1), peek(e.frame, 2)));
}

Step import_from(Evaluation& e, int oparg) {
  return replace(e, 0, e.operations.import_from(peek(e.frame, 1), name_at(e, oparg)));
}

Step import_star(Evaluation& e, int) { return done(e, 1, import_all(e, peek(e.frame, 1))); }

constexpr Row kImportRows[] = {
    {"IMPORT_NAME", 11, 13, import_name},
    {"IMPORT_FROM", 11, 13, import_from},
    {"IMPORT_STAR", 11, 11, import_star},
};

}  // namespace

std::span<const Row> import_rows() { return kImportRows; }

int import_all(const Evaluation& e, PyObject* module) {
  PyObject* space = locals_of(e.frame);  // of a module or a class body
  if (space == nullptr) return fail(PyExc_SystemError, "no locals found during 'import *'");
  Object all;
  int listed = find_attr(module, "__all__"_name, all.out());
  if (listed < 0) return -1;
  if (listed == 0) {
    Object dict;
    if (find_attr(module, "__dict__"_name, dict.out()) < 0) return -1;
    if (!dict) return fail(PyExc_ImportError, "from-import-* object has no __dict__ and no __all__");
    all = Object::take(PyMapping_Keys(dict.get()));
    if (!all) return -1;
  }
  for (Py_ssize_t i = 0;; ++i) {
    Object name = Object::take(PySequence_GetItem(all.get(), i));
    if (!name) {
      if (!PyErr_ExceptionMatches(PyExc_IndexError)) return -1;
      PyErr_Clear();
      return 0;
    }
    if (!PyUnicode_Check(name.get())) {
      Object module_name = Object::take(PyObject_GetAttrString(module, "__name__"));
      if (!module_name) return -1;
      if (!PyUnicode_Check(module_name.get()))
        return fail(PyExc_TypeError, "module __name__ must be a string, not %.100s",
                    Py_TYPE(module_name.get())->tp_name);
      return fail(PyExc_TypeError, "%s in %U.%s must be str, not %.100s", listed == 0 ? "Key" : "Item",
                  module_name.get(), listed == 0 ? "__dict__" : "__all__", Py_TYPE(name.get())->tp_name);
    }
    if (listed == 0 && PyUnicode_GET_LENGTH(name.get()) > 0 && PyUnicode_READ_CHAR(name.get(), 0) == '_') continue;
    Object value = Object::take(PyObject_GetAttr(module, name.get()));
    if (!value) return -1;
    if (PyObject_SetItem(space, name.get(), value.get()) < 0) return -1;
  }
}

void raise_cannot_import(PyObject* module, PyObject* name) {
  Object module_name = attribute_of(module, "__name__");
  bool named = module_name && PyUnicode_Check(module_name.get());
  Object shown = named ? Object::share(module_name.get()) : Object::take(PyUnicode_FromString("<unknown module name>"));
  Object path = Object::take(PyModule_Check(module) ? PyModule_GetFilenameObject(module) : nullptr);
  PyErr_Clear();
  if (!shown) return;
  Object message;
  if (!path || !PyUnicode_Check(path.get())) {
    message = Object::take(PyUnicode_FromFormat("cannot import name %R from %R (unknown location)", name, shown.get()));
    path = Object();
  } else {
    Object initializing = attribute_of(attribute_of(module, "__spec__").get(), "_initializing");
    bool partial = initializing && PyObject_IsTrue(initializing.get()) > 0;
    message = Object::take(PyUnicode_FromFormat(partial ? "cannot import name %R from partially initialized module %R "
                                                          "(most likely due to a circular import) (%S)"
                                                        : "cannot import name %R from %R (%S)",
                                                name, shown.get(), path.get()));
  }
  if (!message) return;
#if PY_VERSION_HEX >= 0x030c0000
  Object no_args = Object::take(PyTuple_Pack(1, message.get())), keywords = Object::take(PyDict_New());
  if (!no_args || !keywords) return;
  PyDict_SetItemString(keywords.get(), "name", named ? module_name.get() : Py_None);
  PyDict_SetItemString(keywords.get(), "path", path ? path.get() : Py_None);
  PyDict_SetItemString(keywords.get(), "name_from", name);
  Object error = Object::take(PyObject_Call(PyExc_ImportError, no_args.get(), keywords.get()));
  if (error) PyErr_SetObject(PyExc_ImportError, error.get());
#else
  PyErr_SetImportError(message.get(), named ? module_name.get() : nullptr, path.get());
#endif
}

}  // namespace vesta::capture
