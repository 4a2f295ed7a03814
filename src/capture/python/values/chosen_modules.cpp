#include "capture/python/values/chosen_modules.h"

#include <algorithm>

#include "capture/python/values/class_sets.h"

namespace vesta::capture {

ChosenModules::ChosenModules(Named only, Named skipped) {
  const auto add = [](Named& from, auto& to) {
    for (auto& [module, name] : from) {
      PyObject* const key = module.get();
      to.try_emplace(key, std::move(module), std::move(name));
    }
  };
  add(only, only_);
  add(skipped, skipped_);
  if (skipped_.empty()) return;
  const Object addresses = Object::take(PySet_New(nullptr));
  for (const auto& [module, named] : skipped_) {
    const Object address = Object::take(PyLong_FromVoidPtr(module));
    if (!addresses || !address || PySet_Add(addresses.get(), address.get()) < 0) throw std::bad_alloc();
  }
  addresses_ = Object::take(PyFrozenSet_New(addresses.get()));
  if (!addresses_) throw std::bad_alloc();
}

const std::string* ChosenModules::skipped(PyObject* module) const {
  const auto found = skipped_.find(module);
  return found == skipped_.end() ? nullptr : &found->second.second;
}

std::vector<std::string> ChosenModules::only_names() const {
  std::vector<std::string> names;
  for (const auto& [module, named] : only_) names.push_back(named.second);
  std::ranges::sort(names);
  return names;
}

bool is_module(PyObject* x) { return is_derived_from(Py_TYPE(x), ClassSet::Modules); }

PyObject* module_called(PyObject* callable) {
  PyObject* x = PyMethod_Check(callable) ? PyMethod_GET_SELF(callable) : callable;
  return is_module(x) ? x : nullptr;
}

}  // namespace vesta::capture
