// Sources of a variant that lead to arguments of the call, as places of a saved program. Sources of the program's own
// objects have no place.
#pragma once

#include <vector>

#include "capture/python/saving/saver.h"
#include "capture/python/segments/captured.h"

namespace vesta::capture {

class Places {
 public:
  Places(const Variant& v, const Calling& calling, program::Variant& out);

  // The source begins at an argument. All others begin at the program: its module, globals or closure.
  bool is_argument(int source) const { return argument_[static_cast<size_t>(source)]; }
  std::vector<bool> arguments() const { return argument_; }
  int positionals() const { return positionals_; }
  // The place of a source; -1: the tuple or dict of arguments that torch.nn.Module.__call__ passes on, which has no
  // place. Throws UserError for an object that the arguments of a saved program do not lead to.
  int of(int source);
  int add(program::Place p);  // the number of this place, the same each time
  // By parameter: the call gave it.
  std::vector<bool> given;

 private:
  int of_passed_on(const Source& s);
  int parameter(const std::string& name) const;  // -1: none

  const Variant& v_;
  const Calling& calling_;
  program::Variant& out_;
  std::vector<bool> argument_;
  std::vector<int> known_;  // by source: place, kUnknown
  int positionals_ = 0;     // how many parameters take positional arguments
};

}  // namespace vesta::capture
