// Opens the libraries that PyTorch's CUDA build brings, at run time. Nothing of CUDA is linked, and an opened library
// is never closed.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace vesta::machine {

// The names of a library, best first, and the folders to search besides the linker's.
struct LibrarySearch {
  std::span<const char* const> names;
  std::span<const char* const> beside =
      {};  // relative folders are relative to that of libc10.so, next to which PyTorch's packages lie
  const char* variable =
      nullptr;  // environment variable with the file to use; if it is set to nothing, no library is used
};

// The files that may be the library, best first: a file that the process has loaded, files in $LD_LIBRARY_PATH, files
// in the folders above. Loads nothing. The linker may know further files.
std::vector<std::string> library_files(const LibrarySearch& search);

// Opens the first of library_files() that can be opened, or what the linker finds under one of the names. nullptr:
// there is none; `why` gets what was searched.
void* open_library(const LibrarySearch& search, std::string* why);
inline void* open_library(std::span<const char* const> names, std::span<const char* const> beside, std::string* why) {
  return open_library({names, beside}, why);
}

// The folder of PyTorch's libraries, found by libc10.so; empty if this process has none.
std::string torch_folder();
// The file that an opened library comes from.
std::string file_of(void* library);
// A library's build ID (a note in the file) as hexadecimal digits: it differs between versions and is the same on every
// machine. Empty if the file has none or cannot be read. Loads nothing.
std::string build_id(const std::string& file);

// Looks up the functions of an opened library by name.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}
  template <class F>
  void find(F*& function, const std::string& name) {
    function = reinterpret_cast<F*>(address(name));
  }
  // A function that the library may lack: nullptr, and it is not missing.
  template <class F>
  void find_newer(F*& function, const std::string& name) {
    const std::string before = missing_;
    find(function, name);
    missing_ = before;
  }
  const std::string& missing() const { return missing_; }  // the last function that was not found; empty: none

 private:
  void* address(const std::string& name);
  void* library_;
  std::string missing_;
};

}  // namespace vesta::machine
