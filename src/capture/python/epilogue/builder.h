// From the state at the end of a trace, before it is undone, to the epilogue: what the frame returns or holds, then
// what was written. Changes nothing that the program sees.
#pragma once

#include <string>
#include <vector>

#include "capture/python/epilogue/describe.h"
#include "capture/python/epilogue/writes.h"
#include "capture/python/frame/frame.h"

namespace vesta::capture {

class EpilogueBuilder {
 public:
  EpilogueBuilder(Trace& trace, Frame* root)
      : objects(trace, epilogue), trace_(trace), root_(root), writes_(objects, code_object()) {}

  // False: see objects.blocked.
  bool leave_by_return(PyObject* result, int position);
  bool leave_by_break(int position);

  Epilogue epilogue;
  Describer objects;
  std::vector<std::string>& effect_texts() { return writes_.texts; }

 private:
  PyObject* code_object() const { return reinterpret_cast<PyObject*>(code_of(root_)); }
  bool effects();
  bool hooks();

  Trace& trace_;
  Frame* root_;
  WriteDescriber writes_;
};

}  // namespace vesta::capture
