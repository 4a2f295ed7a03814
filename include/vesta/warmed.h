// What vesta::warm (vesta/compile.h) did for one example of a call.
#pragma once

#include <string>

namespace vesta {

struct Warmed {
  bool ready = false;   // compiled code serves such a call
  bool is_new = false;  // it was compiled for this example; false: an earlier variant serves it, too
  std::string eager;    // without `ready`, why such a call runs eager
  explicit operator bool() const { return ready; }
};

}  // namespace vesta
