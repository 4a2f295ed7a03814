// The tensors of a saved program that are not arguments: each tensor once, and each storage once.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capture/python/object.h"
#include "program/file.h"

namespace vesta::capture {

class WeightTable {
 public:
  // `names`: of tensors; the first name of a tensor counts.
  explicit WeightTable(const std::vector<std::pair<std::string, Object>>& names);
  // The number of the weight. `name`: for a tensor without one. Throws UserError for a tensor that cannot be saved.
  int add(PyObject* tensor, const std::string& name);
  // Adds weights and storages to the program. Returns the memory of each storage, which this table keeps alive.
  std::vector<program::Memory> finish(program::Program& program);

 private:
  std::unordered_map<PyObject*, std::string> names_;
  std::unordered_map<PyObject*, int> numbers_;
  std::vector<std::pair<Object, std::string>> tensors_;
};

}  // namespace vesta::capture
