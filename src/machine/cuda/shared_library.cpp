#include "machine/cuda/shared_library.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <string_view>

namespace vesta::machine {
namespace {

// The folder of libc10.so, empty if this process has none.
std::string torch_folder() {
  std::string found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        const std::string_view name = info->dlpi_name ? info->dlpi_name : "";
        if (!name.ends_with("/libc10.so")) return 0;
        *static_cast<std::string*>(out) = name.substr(0, name.rfind('/'));
        return 1;
      },
      &found);
  return found;
}

}  // namespace

void* open_library(std::span<const char* const> names, std::span<const char* const> beside, std::string* why) {
  const std::string folder = torch_folder();
  std::string tried;
  for (const char* name : names) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    tried += (tried.empty() ? "" : ", ") + std::string(name);
    for (const char* place : beside) {
      if (folder.empty()) break;
      const std::string path = folder + "/" + place + "/" + name;
      std::error_code ignored;
      if (!std::filesystem::exists(path, ignored)) continue;
      if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
  }
  if (why) *why = "there is no " + tried + (folder.empty() ? "" : " beside PyTorch in " + folder);
  return nullptr;
}

void* Symbols::address(const std::string& name) {
  void* const found = dlsym(library_, name.c_str());
  if (!found) missing_ = name;
  return found;
}

}  // namespace vesta::machine
