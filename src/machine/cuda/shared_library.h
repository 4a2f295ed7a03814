// Libraries that PyTorch's CUDA build brings, found at run time: nothing of CUDA is linked.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace vesta::machine {

// By which names a library is looked for, the best one first, and where besides the linker's folders.
struct LibrarySearch {
  std::span<const char* const> names;
  std::span<const char* const> beside =
      {};                          // folders; relative ones to that of libc10.so, where PyTorch's packages lie
  const char* variable = nullptr;  // of the environment: the file, where it is set; none where it is empty
};

// Files that may be the library, the best one first: one that the process has loaded, those in $LD_LIBRARY_PATH, those
// beside. Loads nothing. The linker may know another.
std::vector<std::string> library_files(const LibrarySearch& search);

// Opens the first of library_files() that can be, or what the linker has under one of the names. nullptr: none; it
// stays loaded for good. `why`: what was looked for.
void* open_library(const LibrarySearch& search, std::string* why);
inline void* open_library(std::span<const char* const> names, std::span<const char* const> beside, std::string* why) {
  return open_library({names, beside}, why);
}

// The folder of PyTorch's libraries, which libc10.so lies in; empty if this process has none.
std::string torch_folder();
// The file of an opened library.
std::string file_of(void* library);
// What tells a library's file from that of any other version, on every machine: its build ID (a note in the file), as
// hexadecimal digits. Empty: it has none, or cannot be read. Loads nothing.
std::string build_id(const std::string& file);

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
