// Makes objects by the reconstructions of an epilogue. Each reconstruction is made once in a call, so that aliases stay
// aliases. Nothing that existed before is written.
#pragma once

#include <vector>

#include "capture/python/epilogue/epilogue.h"

namespace vesta::capture {

class Reconstructor {
 public:
  // `found`: the objects of epilogue.needed.
  Reconstructor(const Epilogue& epilogue, const std::vector<Object>& found, const std::vector<Object>& outputs);
  ~Reconstructor();
  // Borrowed; nullptr with an error set, or for Null without.
  PyObject* make(int reconstruction);
  // Adds these parts to a list, set or dict (of which they are keys and values). False with an error set.
  bool fill(PyObject* container, const std::vector<int>& parts);

 private:
  PyObject* build(const Reconstruction& r, int id);
  bool make_all(const Reconstruction& r, std::vector<PyObject*>& parts);  // false: one of them is nothing
  bool fill_instance(PyObject* x, const Reconstruction& r);
  const Epilogue& epilogue_;
  const std::vector<Object>& found_;
  const std::vector<Object>& outputs_;
  std::vector<PyObject*> made_;
};

}  // namespace vesta::capture
