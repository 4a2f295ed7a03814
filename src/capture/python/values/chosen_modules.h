// The modules that vesta.compile(only=..., skip=...) names. They are known by identity from then on: a module that
// takes the place of another later is neither.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capture/python/object.h"

namespace vesta::capture {

class ChosenModules {
 public:
  using Named = std::vector<std::pair<Object, std::string>>;  // a module, and its name in the model
  ChosenModules() = default;
  ChosenModules(Named only, Named skipped);

  // Whether only the modules of `only` are compiled. Otherwise all but the skipped ones are.
  bool has_only() const { return !only_.empty(); }
  bool has_skipped() const { return !skipped_.empty(); }
  bool is_only(PyObject* module) const { return only_.contains(module); }
  // The name of this skipped module; nullptr: it is none.
  const std::string* skipped(PyObject* module) const;
  // The addresses of the skipped modules, a frozenset, for guards; borrowed.
  PyObject* skipped_addresses() const { return addresses_.get(); }
  std::vector<std::string> only_names() const;  // sorted

  // Calls f(module) for each.
  template <class F>
  void each(F&& f) const {
    for (const auto* modules : {&only_, &skipped_})
      for (const auto& [module, named] : *modules) f(module);
  }

 private:
  std::unordered_map<PyObject*, std::pair<Object, std::string>> only_, skipped_;
  Object addresses_;
};

bool is_module(PyObject* x);  // a torch.nn.Module
// The module that a call of `callable` enters: itself, or the one of a bound method; borrowed, or nullptr.
PyObject* module_called(PyObject* callable);

}  // namespace vesta::capture
