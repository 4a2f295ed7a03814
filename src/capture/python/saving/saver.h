// From a captured callable to a saved program (program/program.h): the variants that a call would take now, the guards
// on arguments as checks, and every tensor that is no argument as a weight.
#pragma once

#include <Python.h>

#include <string>
#include <utility>
#include <vector>

#include "capture/python/object.h"
#include "program/file.h"

namespace vesta::capture {

class Captured;

// How the callable is called; found out in Python, by inspect.signature.
struct Calling {
  std::vector<program::Parameter> parameters;  // without what is bound
  // The frame is that of torch.nn.Module.__call__(self, *args, **kwargs), which passes both on.
  bool passes_on = false;
  Object function;                                    // of the frame
  Object bound;                                       // the frame's first argument, or empty
  std::vector<std::pair<std::string, Object>> names;  // of tensors: a state_dict
};

struct Saving {
  program::Program program;
  std::vector<program::Memory> memory;  // of each storage
  std::vector<std::string> skipped;     // variants that are not in the program, and why
  std::vector<std::string>
      dropped;  // guards on the program itself, which a loaded one does not check, with their lines
};

// Throws UserError: there is no variant that can be saved; each reason names the line.
Saving make_program(const Captured& captured, const Calling& calling);

}  // namespace vesta::capture
