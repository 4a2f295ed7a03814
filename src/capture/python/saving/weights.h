// The tensors of a program that are no arguments: each once, and each storage once.
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
  // `names`: of tensors, the first name counts.
  explicit WeightTable(const std::vector<std::pair<std::string, Object>>& names);
  // The number of the weight; `name` where it has no other. Throws UserError where it cannot be saved.
  int add(PyObject* tensor, const std::string& name);
  // Adds weights and storages. Returns the memory of each storage, which lives as long as this says.
  std::vector<program::Memory> finish(program::Program& program);

 private:
  std::unordered_map<PyObject*, std::string> names_;
  std::unordered_map<PyObject*, int> numbers_;
  std::vector<std::pair<Object, std::string>> tensors_;
};

}  // namespace vesta::capture
