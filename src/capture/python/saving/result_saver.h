// The result of a variant as values of a saved program: tensors, scalars, and lists, tuples and dicts of them.
#pragma once

#include <vector>

#include "capture/python/saving/variant_parts.h"

namespace vesta::capture {

class ResultSaver {
 public:
  explicit ResultSaver(VariantParts& parts)
      : parts_(parts), made_(parts.variant.epilogue.reconstructions.size(), kNone) {}
  // The number of the value that a reconstruction of the epilogue makes; its parts have lower numbers. Throws UserError
  // for what cannot be saved.
  int save(int reconstruction);

 private:
  using Made = program::Make;
  int add(Made m);
  int constant(PyObject* x, const char* what);
  int container(Made::What what, const std::vector<int>& parts);
  int describe(const Reconstruction& r);
  PyObject* object_of(int reconstruction) const;

  static constexpr int kNone = -1, kOpen = -2;
  VariantParts& parts_;
  std::vector<int> made_;  // by reconstruction
};

}  // namespace vesta::capture
