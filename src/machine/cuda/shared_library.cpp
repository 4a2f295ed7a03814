#include "machine/cuda/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

namespace vesta::machine {

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

std::vector<std::string> library_files(const LibrarySearch& search) {
  if (const char* named = search.variable ? std::getenv(search.variable) : nullptr)
    return *named ? std::vector<std::string>{named} : std::vector<std::string>{};
  std::vector<std::string> folders;
  const char* listed = std::getenv("LD_LIBRARY_PATH");
  std::stringstream list(listed ? listed : "");
  for (std::string one; std::getline(list, one, ':');)
    if (!one.empty()) folders.push_back(one);
  const std::string torch = torch_folder();
  for (std::string place : search.beside) {
    if (!place.starts_with('/')) {
      if (torch.empty()) continue;
      place.insert(0, torch + "/");
    }
    folders.push_back(std::move(place));
  }
  std::vector<std::string> out;
  for (const char* name : search.names) {
    if (void* loaded = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) {
      out.push_back(file_of(loaded));
      dlclose(loaded);
    }
    for (const std::string& folder : folders) {
      const std::string path = folder + "/" + name;
      std::error_code ignored;
      if (std::filesystem::exists(path, ignored)) out.push_back(path);
    }
  }
  return out;
}

void* open_library(const LibrarySearch& search, std::string* why) {
  for (const std::string& file : library_files(search))
    if (void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  if (const char* named = search.variable ? std::getenv(search.variable) : nullptr) {
    if (why) *why = fmt::format("{} is \"{}\"", search.variable, named);
    return nullptr;
  }
  std::string tried;
  for (const char* name : search.names) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    tried += (tried.empty() ? "" : ", ") + std::string(name);
  }
  const std::string torch = torch_folder();
  if (why) *why = "there is no " + tried + (torch.empty() ? "" : " beside PyTorch in " + torch);
  return nullptr;
}

std::string file_of(void* library) {
  link_map* map = nullptr;
  return dlinfo(library, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0 && map ? map->l_name : "";
}

std::string build_id(const std::string& file) {
  constexpr std::streamsize kMostNotes = 64 << 10;
  std::ifstream in(file, std::ios::binary);
  const auto read = [&](auto& what, uint64_t at) {
    return static_cast<bool>(
        in.seekg(static_cast<std::streamoff>(at)).read(reinterpret_cast<char*>(&what), sizeof what));
  };
  ElfW(Ehdr) head;
  if (!read(head, 0) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return {};
  for (uint64_t i = 0; i < head.e_phnum; ++i) {
    ElfW(Phdr) part;
    if (!read(part, head.e_phoff + i * head.e_phentsize)) return {};
    if (part.p_type != PT_NOTE || part.p_filesz > kMostNotes) continue;
    std::string notes(part.p_filesz, '\0');
    if (!in.seekg(static_cast<std::streamoff>(part.p_offset)).read(notes.data(), std::ssize(notes))) return {};
    ElfW(Nhdr) note;
    const auto padded = [](uint64_t bytes) { return (bytes + 3) / 4 * 4; };
    for (uint64_t at = 0; at + sizeof note <= notes.size();) {
      std::memcpy(&note, notes.data() + at, sizeof note);
      const uint64_t text = at + sizeof note + padded(note.n_namesz), end = text + padded(note.n_descsz);
      if (end > notes.size()) break;
      const char* const owner = notes.data() + at + sizeof note;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(owner, "GNU", 4) == 0) {
        std::string out;
        for (uint64_t b = 0; b < note.n_descsz; ++b)
          out += fmt::format("{:02x}", static_cast<unsigned char>(notes[text + b]));
        return out;
      }
      at = end;
    }
  }
  return {};
}

void* Symbols::address(const std::string& name) {
  void* const found = dlsym(library_, name.c_str());
  if (!found) missing_ = name;
  return found;
}

}  // namespace vesta::machine
