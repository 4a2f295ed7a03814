// Warnings of torch's operators: kept while a graph is traced or runs, given where eager gives them. Nothing is kept
// unless a WarningsKept of the thread is alive.
#pragma once

#include <vector>

#include "capture/python/frame/frame.h"
#include "capture/python/object.h"

namespace vesta::capture {

struct Warning {
  Object category, message, file, globals;  // globals: of the module that Python counts the warning for
  int line = 0;

  bool operator==(const Warning& o) const;  // of one kind and text
};

// While one lives, warnings that libtorch_python gives in this thread go to `into`.
class WarningsKept {
 public:
  explicit WarningsKept(std::vector<Warning>& into);
  ~WarningsKept();
  WarningsKept& operator=(WarningsKept&&) = delete;  // neither copied nor moved

 private:
  std::vector<Warning>* before_;
};

// Takes the place of PyErr_WarnEx in libtorch_python (gil/gil_hold.h).
int warn(PyObject* category, const char* text, Py_ssize_t level);

// Those of `given` without one for each of `known`.
std::vector<Warning> warnings_without(const std::vector<Warning>& given, std::vector<Warning> known);
void append(std::vector<Warning>& to, std::vector<Warning> more);
// As if an instruction of `f` gave them.
void place(std::vector<Warning>& warnings, const Frame* f, int position);
// Gives them to Python's module `warnings`. False: a filter turned one into an error, which is set.
bool give(const std::vector<Warning>& warnings);
// Some filter of the program turns warnings into errors, or the filters cannot be read.
bool may_become_errors();

}  // namespace vesta::capture
