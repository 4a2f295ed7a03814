// Warnings of torch's operators, kept while a graph is traced or runs, and given where eager gives them.
#pragma once

#include <vector>

#include "capture/python/frame/frame.h"
#include "capture/python/object.h"

namespace vesta::capture {

struct Warning {
  Object category, message, file, globals;  // globals: of the module that the warning is counted for
  int line = 0;

  bool operator==(const Warning& o) const;  // of one kind and text
};

// While one lives, warnings that libtorch_python gives in this thread go to `into`.
class WarningsKept {
 public:
  explicit WarningsKept(std::vector<Warning>& into);
  ~WarningsKept();
  WarningsKept(const WarningsKept&) = delete;
  WarningsKept& operator=(const WarningsKept&) = delete;

 private:
  std::vector<Warning>* before_;
};

// What PyErr_WarnEx is for libtorch_python.
int warn(PyObject* category, const char* text, Py_ssize_t level);

// As if an instruction of `f` gave them.
void place(std::vector<Warning>& warnings, const Frame* f, int position);
// False: a Python error is set, for some filter makes errors of warnings.
bool give(const std::vector<Warning>& warnings);
// Whether some filter does. An error of Python's counts as one.
bool may_become_errors();

}  // namespace vesta::capture
