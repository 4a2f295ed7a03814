#include "capture/python/gil/relocations.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace vesta::capture {
namespace {

#if defined(__aarch64__)
constexpr uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT, kGlobalData = R_AARCH64_GLOB_DAT;
#else
constexpr uint32_t kJumpSlot = R_X86_64_JUMP_SLOT, kGlobalData = R_X86_64_GLOB_DAT;
#endif

struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Rela) * relocations[2] = {nullptr, nullptr};
  size_t sizes[2] = {0, 0};
};

Tables tables_of(const dl_phdr_info& library) {
  Tables t;
  for (int i = 0; i < library.dlpi_phnum; ++i) {
    if (library.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(library.dlpi_addr + library.dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      switch (entry->d_tag) {
        case DT_SYMTAB: t.symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr); break;
        case DT_STRTAB: t.names = reinterpret_cast<const char*>(entry->d_un.d_ptr); break;
        case DT_JMPREL: t.relocations[0] = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr); break;
        case DT_PLTRELSZ: t.sizes[0] = entry->d_un.d_val; break;
        case DT_RELA: t.relocations[1] = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr); break;
        case DT_RELASZ: t.sizes[1] = entry->d_un.d_val; break;
        default: break;
      }
    }
  }
  return t;
}

bool write_slot(uintptr_t slot, void* function) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  if (mprotect(reinterpret_cast<void*>(slot & ~(page - 1)), page, PROT_READ | PROT_WRITE) != 0) return false;
  __atomic_store_n(reinterpret_cast<void**>(slot), function, __ATOMIC_RELEASE);
  return true;
}

}  // namespace

Redirected redirect_import(const dl_phdr_info& library, std::string_view function, void* replacement) {
  const Tables t = tables_of(library);
  Redirected outcome = Redirected::NotImported;
  if (!t.symbols || !t.names) return outcome;
  for (int table = 0; table < 2; ++table) {
    const size_t count = t.relocations[table] ? t.sizes[table] / sizeof(ElfW(Rela)) : 0;
    for (size_t i = 0; i < count; ++i) {
      const ElfW(Rela)& r = t.relocations[table][i];
      const auto type = static_cast<uint32_t>(ELF64_R_TYPE(r.r_info));
      if (type != kJumpSlot && type != kGlobalData) continue;
      if (function != t.names + t.symbols[ELF64_R_SYM(r.r_info)].st_name) continue;
      if (!write_slot(library.dlpi_addr + r.r_offset, replacement)) return Redirected::ReadOnly;
      outcome = Redirected::Done;
    }
  }
  return outcome;
}

Redirected redirect_import(std::string_view library, std::string_view function, void* replacement) {
  struct Search {
    std::string_view library, function;
    void* replacement;
    Redirected outcome = Redirected::NoLibrary;
  } search{library, function, replacement};
  dl_iterate_phdr(
      [](dl_phdr_info* found, size_t, void* data) {
        auto& s = *static_cast<Search*>(data);
        if (std::string_view(found->dlpi_name).find(s.library) == std::string_view::npos) return 0;
        s.outcome = redirect_import(*found, s.function, s.replacement);
        return 1;
      },
      &search);
  return search.outcome;
}

}  // namespace vesta::capture
