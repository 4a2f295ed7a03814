// Which sources of a variant are arguments of the call, as places of a saved program.
#pragma once

#include <vector>

#include "capture/python/saving/saver.h"
#include "capture/python/segments/captured.h"

namespace vesta::capture {

class Places {
 public:
  Places(const Variant& v, const Calling& calling, program::Variant& out);

  // Whether a source hangs on an argument; all others hang on the program: its module, globals, closure.
  bool is_argument(int source) const { return argument_[static_cast<size_t>(source)]; }
  std::vector<bool> arguments() const { return argument_; }
  // The place of a source; -1: the tuple or dict of arguments that torch.nn.Module.__call__ passes on, which is no
  // place. Throws UserError for what cannot be found again in the arguments of a saved program.
  int of(int source);
  int add(program::Place p);  // the one number of this place
  // Parameters that the call gave, by number.
  std::vector<bool> given;

 private:
  int of_passed_on(const Source& s);
  int parameter(const std::string& name) const;  // -1: none
  std::string text(int source) const;

  const Variant& v_;
  const Calling& calling_;
  program::Variant& out_;
  std::vector<bool> argument_;
  std::vector<int> known_;  // by source: place, kUnknown
  int positionals_ = 0;     // parameters that a positional argument may be
};

}  // namespace vesta::capture
