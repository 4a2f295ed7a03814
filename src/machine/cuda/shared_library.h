// Libraries that PyTorch's CUDA build brings, found at run time: nothing of CUDA is linked.
#pragma once

#include <span>
#include <string>

namespace vesta::machine {

// Opens the first of `names` that there is: one that the process has loaded, one in the folders of the linker, or one
// of the folders `beside` (relative to the folder of libc10.so, where PyTorch's packages lie). nullptr: none; it stays
// loaded for good. `why`: what was looked for.
void* open_library(std::span<const char* const> names, std::span<const char* const> beside, std::string* why);

// Its functions, by name.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}
  template <class F>
  void find(F*& function, const std::string& name) {
    function = reinterpret_cast<F*>(address(name));
  }
  const std::string& missing() const { return missing_; }  // the last that was not found; empty: none

 private:
  void* address(const std::string& name);
  void* library_;
  std::string missing_;
};

}  // namespace vesta::machine
