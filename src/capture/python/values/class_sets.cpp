#include "capture/python/values/class_sets.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "capture/python/values/names.h"

namespace vesta::capture {
namespace {

// The names are expressions of the module, separated by spaces.
struct Row {
  ClassSet set;
  const char* module;
  const char* names;
};

constexpr Row kRows[] = {
    {ClassSet::TensorProperties, "torch", "device dtype layout memory_format"},
    {ClassSet::TorchSize, "torch", "Size"},
    {ClassSet::TensorTypes, "torch", "type(FloatTensor)"},
    {ClassSet::AutogradFunctionMeta, "torch.autograd.function", "FunctionMeta"},
    {ClassSet::Singletons, "torch", "dtype layout memory_format qscheme"},
    {ClassSet::Singletons, "typing", "TypeVar"},
    {ClassSet::Singletons, "re", "Pattern Match"},
    {ClassSet::Singletons, "operator", "attrgetter itemgetter methodcaller"},
    {ClassSet::Singletons, "types", "GenericAlias UnionType"},
    {ClassSet::EnumMeta, "enum", "EnumMeta"},
    {ClassSet::Closed, "builtins", "bytearray memoryview"},
    {ClassSet::Closed, "types", "MappingProxyType SimpleNamespace TracebackType"},
    {ClassSet::Closed, "builtins",
     "type({}.keys()) type({}.values()) type({}.items()) type(iter({})) type(iter({}.values())) type(iter({}.items())) "
     "type(reversed({})) type(reversed({}.values())) type(reversed({}.items()))"},
    {ClassSet::Closed, "collections",
     "deque type(OrderedDict().keys()) type(OrderedDict().values()) type(OrderedDict().items()) "
     "type(iter(OrderedDict()))"},
    {ClassSet::Partial, "functools", "partial"},
    {ClassSet::CachedFunctions, "functools", "_lru_cache_wrapper"},
    {ClassSet::ItemGetter, "operator", "itemgetter"},
    {ClassSet::TupleFields, "collections", "_tuplegetter"},
    {ClassSet::Deque, "collections", "deque"},
    {ClassSet::DefaultDict, "collections", "defaultdict"},
    {ClassSet::DictViews, "builtins", "type({}.keys()) type({}.values()) type({}.items())"},
    {ClassSet::ContainerIterators, "builtins",
     "type(iter(set())) type(reversed({})) type(reversed({}.values())) type(reversed({}.items()))"},
    {ClassSet::ContainerIterators, "collections",
     "type(iter(OrderedDict())) type(iter(deque())) type(reversed(deque()))"},
    {ClassSet::Itertools, "itertools",
     "_grouper _tee accumulate chain combinations combinations_with_replacement compress count cycle dropwhile "
     "filterfalse groupby islice pairwise permutations product repeat starmap takewhile zip_longest"},
    {ClassSet::NumpyScalars, "numpy", "generic"},
    {ClassSet::NumpyContainers, "numpy", "object_ void"},
    {ClassSet::NumpyFunctions, "numpy", "ufunc type(prod)"},
    {ClassSet::Modules, "torch.nn.modules.module", "Module"},
};
constexpr size_t kSets = static_cast<size_t>(ClassSet::Modules) + 1;

struct Resolved {
  std::vector<PyTypeObject*> classes;  // kept for good
  std::vector<const Row*> pending;     // of modules that are not imported
};

// False while the module is not imported, or is being imported.
bool resolve(const Row& row, std::vector<PyTypeObject*>& classes) {
  PyObject* module = imported_module(row.module);
  if (!module) return false;
  std::vector<Object> found;
  each_name(row.names, [&](std::string_view name) { found.push_back(evaluate(module, std::string(name))); });
  const auto is_class = [](const Object& x) { return x && PyType_Check(x.get()); };
  if (!std::all_of(found.begin(), found.end(), is_class)) return false;
  for (Object& x : found) classes.push_back(reinterpret_cast<PyTypeObject*>(x.release()));
  return true;
}

const std::vector<PyTypeObject*>& classes_of(ClassSet set) {
  static std::array<Resolved, kSets> all = [] {
    std::array<Resolved, kSets> sets;
    for (const Row& row : kRows) sets[static_cast<size_t>(row.set)].pending.push_back(&row);
    return sets;
  }();
  Resolved& s = all[static_cast<size_t>(set)];
  if (!s.pending.empty()) std::erase_if(s.pending, [&](const Row* row) { return resolve(*row, s.classes); });
  return s.classes;
}

}  // namespace

bool is_in(const PyTypeObject* type, ClassSet set) {
  const auto& classes = classes_of(set);
  return std::find(classes.begin(), classes.end(), type) != classes.end();
}

bool is_derived_from(PyTypeObject* type, ClassSet set) {
  const auto& classes = classes_of(set);
  return std::any_of(classes.begin(), classes.end(), [&](PyTypeObject* c) { return PyType_IsSubtype(type, c); });
}

}  // namespace vesta::capture
