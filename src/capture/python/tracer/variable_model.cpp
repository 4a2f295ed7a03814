#include "capture/python/tracer/variable_model.h"

#include <cstring>

#include "capture/python/tracer/trace.h"

namespace vesta::capture {

bool VariableModel::begin() {
  const int locals = code_of(t_.root)->co_nlocalsplus, all = locals + depth_of(t_.root);
  entry_.resize(static_cast<size_t>(all));
  tracked_.assign(static_cast<size_t>(all), false);
  written_.assign(static_cast<size_t>(all), false);
  for (int i = 0; i < all; ++i) {
    entry_[static_cast<size_t>(i)] = slot(t_.root, i);
    if (slot(t_.root, i)) t_.sources.keep(slot(t_.root, i));
  }
  t_.sources.know(function_of(t_.root), t_.sources.add(SourceKind::Function, -1));
  t_.functions.know_closure(function_of(t_.root));
  // Inner functions reach the frame's cells by closures of their own: a cell is known before the frame reads it.
  constexpr int cell_or_free = 0x40 | 0x80;
  const char* kinds = PyBytes_AS_STRING(code_of(t_.root)->co_localspluskinds);
  for (int i = 0; i < locals; ++i)
    if (PyObject* x = slot(t_.root, i);
        x && (kinds[i] & cell_or_free) != 0 && PyCell_Check(x) && t_.sources.find(x) < 0)
      t_.sources.know(x, t_.sources.add(SourceKind::Local, -1, i));
  t_.functions.note_code(code_of(t_.root));
  // Instructions take values from the stack without a call of Operations.
  for (int i = locals; i < all; ++i) {
    if (!slot(t_.root, i)) continue;
    PyObject* x = t_.tracker.track(slot(t_.root, i), t_.sources.add(SourceKind::Local, -1, i));
    if (!x) return false;
    Py_SETREF(slot(t_.root, i), x);
    tracked_[static_cast<size_t>(i)] = true;
  }
  return true;
}

bool VariableModel::is_entry_value(int i) const {
  return i < static_cast<int>(entry_.size()) && !written_[static_cast<size_t>(i)];
}

int VariableModel::namespace_source(Frame* f, PyObject* dict) {
  if (const int source = t_.sources.find(dict); source >= 0) return source;
  const int source = f == t_.root
                         ? t_.sources.add(dict == globals_of(f) ? SourceKind::Globals : SourceKind::Builtins, -1)
                         : t_.sources.constant(dict);
  t_.sources.know(dict, source);
  return source;
}

void VariableModel::move_into_cell(PyObject* cell) {
  PyObject* x = PyCell_GET(cell);
  for (int i = 0; x && i < code_of(t_.root)->co_nlocalsplus; ++i) {
    if (slot(t_.root, i) != cell || x != entry_[static_cast<size_t>(i)]) continue;
    const Object seen = Object::take(t_.tracker.track(x, t_.sources.add(SourceKind::Local, -1, i)));
    if (!seen) return;
    PyCell_Set(cell, seen.get());
  }
}

void VariableModel::storing(Frame* f, int i) {
  if (f == t_.root) written_[static_cast<size_t>(i)] = true;
}

bool VariableModel::is_bound(Frame* f, int i) {
  const bool bound = slot(f, i) != nullptr;
  if (f == t_.root && is_entry_value(i))
    t_.guards.add(bound ? Check::Present : Check::Absent, t_.sources.add(SourceKind::Local, -1, i));
  return bound;
}

PyObject* VariableModel::load_fast(Frame* f, int i) {
  PyObject* x = slot(f, i);
  if (!x) return is_bound(f, i), nullptr;
  if (f == t_.root && is_entry_value(i) && !tracked_[static_cast<size_t>(i)]) {
    PyObject* seen = t_.tracker.track(x, t_.sources.add(SourceKind::Local, -1, i));
    if (!seen) return nullptr;
    tracked_[static_cast<size_t>(i)] = true;
    if (seen != x) Py_SETREF(slot(f, i), Py_NewRef(seen));
    return seen;
  }
  return Py_NewRef(x);
}

int VariableModel::cell_source(Frame* f, int i) {
  PyObject* cell = slot(f, i);
  if (!cell || !PyCell_Check(cell)) return -1;
  int source = t_.sources.find(cell);
  if (source >= 0) return source;
  PyCodeObject* code = code_of(f);
  const int free = i - (code->co_nlocalsplus - code->co_nfreevars);
  if (f == t_.root && i < static_cast<int>(entry_.size()) && cell == entry_[static_cast<size_t>(i)]) {
    source = t_.sources.add(SourceKind::Local, -1, i);
  } else if (free >= 0 && t_.made.born_at(cell) < 0 && !t_.made.contains(cell)) {
    // A cell of a function that existed before is an item of that function's closure.
    const int function = t_.sources.find(function_of(f));
    if (function >= 0) source = t_.sources.add(SourceKind::ClosureCell, function, free);
  }
  if (source < 0) return -1;
  t_.guards.add(Check::Type, source, reinterpret_cast<PyObject*>(&PyCell_Type));
  t_.sources.know(cell, source);
  return source;
}

PyObject* VariableModel::load_cell(Frame* f, int i) {
  PyObject* cell = slot(f, i);
  if (!cell) return nullptr;
  const int source = cell_source(f, i);
  if (source < 0) return Py_XNewRef(PyCell_GET(cell));
  PyObject* now = PyCell_GET(cell);
  const UndoLog::Entry* e = t_.log.find(cell);
  if (e && e->before.get() != now) return Py_XNewRef(now);
  const int contents = t_.sources.add(SourceKind::CellContents, source);
  if (!now) {
    t_.guards.add(Check::Absent, contents);
    return nullptr;
  }
  return t_.tracker.track(now, contents);
}

int VariableModel::store_cell(Frame* f, int i, PyObject* value) {
  PyObject* cell = slot(f, i);
  cell_source(f, i);  // the epilogue writes to cells that have a source
  t_.log.cell(cell);
  return PyCell_Set(cell, value);
}

PyObject* VariableModel::load_global(Frame* f, PyObject* name) {
  for (PyObject* dict : {globals_of(f), builtins_of(f)}) {
    if (!PyDict_Check(dict)) continue;
    if (const auto x = t_.containers.read_dict(dict, namespace_source(f, dict), name)) return *x;
  }
  return t_.python.load_global(f, name);
}

int VariableModel::store_global(Frame* f, PyObject* name, PyObject* value) {
  PyObject* dict = globals_of(f);
  namespace_source(f, dict);
  if (!t_.containers.before_write_key(dict, name, value == nullptr)) return -1;
  return t_.python.store_global(f, name, value);
}

// ---- imports

Object VariableModel::absolute_name(Frame* f, PyObject* name, long up) {
  PyObject* globals = globals_of(f);
  PyObject* package = PyDict_GetItemWithError(globals, "__package__"_name);
  PyErr_Clear();
  if (!package || !PyUnicode_CheckExact(package)) return {};
  t_.guards.add(Check::Equals, t_.sources.value(namespace_source(f, globals), "__package__"_name), package);
  const char* text = PyUnicode_AsUTF8(package);
  const char* more = PyUnicode_AsUTF8(name);
  if (!text || !more) return PyErr_Clear(), Object();
  std::string out = text;
  for (long i = 1; i < up; ++i) {
    const size_t dot = out.rfind('.');
    if (dot == std::string::npos) return {};
    out.resize(dot);
  }
  if (*more) out += std::string(out.empty() ? "" : ".") + more;
  return out.empty() || *text == 0 ? Object() : Object::take(PyUnicode_InternFromString(out.c_str()));
}

PyObject* VariableModel::missing_module(PyObject* name) {
  t_.progress.want_module(utf8_of(name));
  return t_.graph_break(Break::ModuleImported);
}

PyObject* VariableModel::loaded_module(PyObject* name) {
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* module = name ? PyDict_GetItemWithError(modules, name) : nullptr;
  if (!module || !PyModule_Check(module)) return PyErr_Clear(), missing_module(name);
  t_.guards.add(Check::Is, t_.sources.value(t_.tracker.constant_source(modules), name), module);
  return t_.tracker.track_constant(module);
}

PyObject* VariableModel::import_name(Frame* f, PyObject* name, PyObject* fromlist, PyObject* level) {
  PyObject* modules = PyImport_GetModuleDict();
  const long up = PyLong_Check(level) ? PyLong_AsLong(level) : 0;
  const Object absolute = up > 0 ? absolute_name(f, name, up) : Object::share(name);
  name = absolute.get();
  const Object loaded = Object::take(loaded_module(name));
  if (!loaded) return nullptr;
  PyObject* module = loaded.get();
  if (up == 0 && (fromlist == Py_None || (PyTuple_Check(fromlist) && PyTuple_GET_SIZE(fromlist) == 0))) {
    const char* text = PyUnicode_AsUTF8(name);
    const char* dot = text ? std::strchr(text, '.') : nullptr;
    if (dot) {
      const Object top = Object::take(PyUnicode_FromStringAndSize(text, dot - text));
      module = PyDict_GetItemWithError(modules, top.get());
      if (!module) return missing_module(top.get());
    }
  }
  // `from package import module` imports a module that is not loaded yet.
  for (Py_ssize_t i = 0; PyTuple_Check(fromlist) && i < PyTuple_GET_SIZE(fromlist); ++i) {
    PyObject* wanted = PyTuple_GET_ITEM(fromlist, i);
    if (PyUnicode_CompareWithASCIIString(wanted, "*") == 0) continue;
    if (!PyDict_GetItemWithError(PyModule_GetDict(module), wanted)) {
      PyErr_Clear();
      const Object submodule = Object::take(PyUnicode_FromFormat("%U.%U", name, wanted));
      if (submodule) t_.progress.want_module(utf8_of(submodule.get()));
      return t_.graph_break(Break::NameImported);
    }
  }
  return t_.tracker.track_constant(module);
}

PyObject* VariableModel::import_from(PyObject* module, PyObject* name) {
  PyObject* x = t_.objects.get_attr(module, name);
  if (x || t_.ended() || !PyErr_ExceptionMatches(PyExc_AttributeError)) return x;
  PyErr_Clear();
  return t_.tracker.finish_call(t_.python.import_from(module, name));
}

}  // namespace vesta::capture
