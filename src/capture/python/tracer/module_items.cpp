#include "capture/python/tracer/module_items.h"

#include <array>

#include "capture/python/tracer/trace.h"
#include "capture/python/values/classes.h"

namespace vesta::capture {
namespace {

constexpr std::array<const char*, 3> kTables = {"_parameters", "_buffers", "_modules"};

// The tuple begins with these texts; `rest`: it may have more.
template <size_t N>
bool are_texts(PyObject* tuple, const std::array<const char*, N>& texts, Py_ssize_t first, bool rest) {
  if (!PyTuple_Check(tuple)) return false;
  const Py_ssize_t n = PyTuple_GET_SIZE(tuple) - first;
  if (n < static_cast<Py_ssize_t>(N) || (!rest && n != static_cast<Py_ssize_t>(N))) return false;
  for (size_t i = 0; i < N; ++i)
    if (utf8_of(PyTuple_GET_ITEM(tuple, first + static_cast<Py_ssize_t>(i))) != texts[i]) return false;
  return true;
}

bool is_known_code(PyObject* function) {
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  if (utf8_of(code->co_qualname) != "Module.__getattr__") return false;
  PyObject* globals = PyFunction_GET_GLOBALS(function);
  PyObject* module = PyDict_Check(globals) ? PyDict_GetItemString(globals, "__name__") : nullptr;
  constexpr std::array<const char*, 4> names = {"__dict__", "AttributeError", "type", "__name__"};
  constexpr std::array<const char*, 5> variables = {"self", "name", "_parameters", "_buffers", "modules"};
  return utf8_of(module) == "torch.nn.modules.module" && are_texts(code->co_names, names, 0, /*rest=*/false) &&
         are_texts(code->co_localsplusnames, variables, 0, /*rest=*/false) &&
         are_texts(code->co_consts, kTables, /*first=*/1, /*rest=*/true);
}

}  // namespace

bool is_getattr_of_modules(PyObject* function) {
  if (!PyFunction_Check(function)) return false;
  static PyObject* known = nullptr;  // the code; kept for good
  PyObject* code = PyFunction_GET_CODE(function);
  if (code == known) return true;
  if (!is_known_code(function)) return false;
  Py_XSETREF(known, Py_NewRef(code));
  return true;
}

std::optional<PyObject*> module_item(Trace& t, PyObject* module, PyObject* name, PyObject* getattr) {
  static PyObject* const tables[] = {PyUnicode_InternFromString(kTables[0]), PyUnicode_InternFromString(kTables[1]),
                                     PyUnicode_InternFromString(kTables[2])};
  PyTypeObject* type = Py_TYPE(module);
  PyObject* own = _PyType_Lookup(type, "__dict__"_name);
  PyObject* dict = instance_dict(module);
  if (!own || Py_TYPE(own) != &PyGetSetDescr_Type || !dict) return std::nullopt;  // the class has a __dict__ of its own
  t.tracker.note_constant(getattr);
  t.functions.guard(getattr);
  t.guards.add_class(type, "__dict__"_name);
  const int source = t.objects.dict_source(module);
  for (PyObject* table : tables) {
    const auto found = t.containers.read_dict(dict, source, table);
    if (!found) continue;
    const Object items = Object::take(*found);
    if (!items) return nullptr;
    if (!PyDict_CheckExact(items.get()) && !PyODict_CheckExact(items.get())) return std::nullopt;
    if (const auto x = t.containers.read_dict(items.get(), t.sources.find(items.get()), name)) return x;
  }
  return std::nullopt;
}

}  // namespace vesta::capture
