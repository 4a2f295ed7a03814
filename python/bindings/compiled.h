// vesta._C.CompiledFunction: a Python callable on flat arguments, compiled through vesta::detail::Function. Arguments
// that Function does not take are passed to the eager program.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include "vesta/options.h"
#include "vesta/report.h"

namespace vesta::python {

// Facts about one positional argument that the caller knows beforehand.
struct ArgumentInfo {
  std::string name;
  bool parameter = false;     // a weight or a buffer: the same tensor from call to call
  std::vector<bool> dynamic;  // per dimension, or one entry for an int; empty: the calls decide
  std::vector<int> label;     // dimensions with equal labels have equal sizes; -1: no label
};

// Adds the type to the module.
void add_compiled_function(pybind11::module_& module);

}  // namespace vesta::python
