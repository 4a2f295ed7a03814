#include "capture/python/functions/named_classes.h"

#include <algorithm>
#include <array>

#include "capture/python/object.h"

namespace vesta::capture {
namespace {

// In the order of the enum. The name is an expression of the module.
struct Row {
  NamedClass which;
  const char* module;
  const char* name;
};
constexpr Row kRows[] = {
    {NamedClass::TorchDevice, "torch", "device"},
    {NamedClass::TorchDtype, "torch", "dtype"},
    {NamedClass::TorchLayout, "torch", "layout"},
    {NamedClass::TorchMemoryFormat, "torch", "memory_format"},
    {NamedClass::TorchSize, "torch", "Size"},
    {NamedClass::TorchTensorType, "torch", "type(FloatTensor)"},
    {NamedClass::AutogradFunctionMeta, "torch.autograd.function", "FunctionMeta"},
    {NamedClass::Partial, "functools", "partial"},
    {NamedClass::CachedFunction, "functools", "_lru_cache_wrapper"},
    {NamedClass::ItemGetter, "operator", "itemgetter"},
    {NamedClass::TupleField, "collections", "_tuplegetter"},
    {NamedClass::Deque, "collections", "deque"},
    {NamedClass::DefaultDict, "collections", "defaultdict"},
    {NamedClass::DictKeys, "builtins", "type({}.keys())"},
    {NamedClass::DictValues, "builtins", "type({}.values())"},
    {NamedClass::DictItems, "builtins", "type({}.items())"},
    {NamedClass::NumpyGeneric, "numpy", "generic"},
    {NamedClass::NumpyObject, "numpy", "object_"},
    {NamedClass::NumpyVoid, "numpy", "void"},
    {NamedClass::NumpyUfunc, "numpy", "ufunc"},
    {NamedClass::NumpyFunction, "numpy", "type(prod)"},
};

constexpr size_t kCount = std::size(kRows);
static_assert([] {
  for (size_t i = 0; i < kCount; ++i)
    if (static_cast<size_t>(kRows[i].which) != i) return false;
  return true;
}());

PyTypeObject* find(const Row& row, PyObject* module) {
  PyObject* names = PyModule_GetDict(module);
  const Object globals = Object::take(PyDict_New());
  if (globals) PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins());
  PyObject* found = globals ? PyRun_String(row.name, Py_eval_input, globals.get(), names) : nullptr;
  if (!found) PyErr_Clear();  // a module that is being imported
  return found && PyType_Check(found) ? reinterpret_cast<PyTypeObject*>(found) : nullptr;  // kept for good
}

}  // namespace

PyTypeObject* named_class(NamedClass which) {
  static std::array<PyTypeObject*, kCount> known = {};
  static std::array<PyObject*, kCount> modules = {};
  const auto i = static_cast<size_t>(which);
  if (known[i]) return known[i];
  if (!modules[i]) modules[i] = PyUnicode_InternFromString(kRows[i].module);
  PyObject* module = PyDict_GetItemWithError(PyImport_GetModuleDict(), modules[i]);
  if (!module || !PyModule_Check(module)) return nullptr;
  return known[i] = find(kRows[i], module);
}

bool is_tensor_property_class(const PyTypeObject* type) {
  return is_class(type, NamedClass::TorchDevice) || is_class(type, NamedClass::TorchDtype) ||
         is_class(type, NamedClass::TorchLayout) || is_class(type, NamedClass::TorchMemoryFormat);
}

bool is_itertools_class(const PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("itertools");
  PyObject* module = PyDict_GetItemWithError(PyImport_GetModuleDict(), name);
  if (!module || !PyModule_Check(module)) return false;
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(PyModule_GetDict(module), &at, nullptr, &value);)
    if (value == reinterpret_cast<const PyObject*>(type)) return true;
  return false;
}

}  // namespace vesta::capture
