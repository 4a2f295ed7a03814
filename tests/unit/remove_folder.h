// Removes a folder and all that is in it. Tests that link torch need it instead of std::filesystem::remove_all():
// libtorch.so of torch 2.11 exports one of its own, which crashes.
#pragma once

#include <ftw.h>

#include <cstdio>
#include <filesystem>

namespace vesta::testing {

inline void remove_folder(const std::filesystem::path& folder) {
  const auto remove = [](const char* path, const struct stat*, int, FTW*) { return std::remove(path); };
  nftw(folder.c_str(), remove, 16, FTW_DEPTH | FTW_PHYS);
}

}  // namespace vesta::testing
