// Ranges that PyTorch's profiler shows while it is on (torch.profiler, torch.autograd.profiler). Otherwise a range
// costs a call that reads a variable of the thread.
#pragma once

#include <memory>
#include <string>

namespace vesta::capture {

bool is_profiled();

// A range as long as the object, by name.
class ProfiledRange {
 public:
  explicit ProfiledRange(const std::string& name) {
    if (is_profiled()) begin(name);
  }
  ProfiledRange(const ProfiledRange&) = delete;

 private:
  void begin(const std::string& name);
  std::shared_ptr<const void> range_;  // of a type that this header does not show
};

}  // namespace vesta::capture
