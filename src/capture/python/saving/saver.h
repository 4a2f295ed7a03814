// From a captured callable to a saved program (program/program.h): variants that a call could use now, their guards on
// arguments as checks, and every other tensor as a weight. The callable does not change.
#pragma once

#include <Python.h>

#include <string>
#include <utility>
#include <vector>

#include "capture/python/object.h"
#include "program/file.h"

namespace vesta::capture {

class Captured;

// How the callable is called, as inspect.signature says.
struct Calling {
  std::vector<program::Parameter> parameters;  // without a bound one
  // The frame is that of torch.nn.Module.__call__(self, *args, **kwargs), which passes its arguments on.
  bool passes_on = false;
  Object function;                                    // of the frame
  Object bound;                                       // the frame's first argument, or empty
  std::vector<std::pair<std::string, Object>> names;  // names of tensors, as in a state_dict
};

struct Saving {
  program::Program program;
  std::vector<program::Memory> memory;  // of each storage
  std::vector<std::string> skipped;     // variants that are not in the program, and why
  std::vector<std::string>
      dropped;  // guards on the program itself, with their lines: a loaded program does not check them
};

// Throws UserError if no variant can be saved; each reason names its line.
Saving make_program(const Captured& captured, const Calling& calling);

}  // namespace vesta::capture
