#include "capture/python/frame/gil_hold.h"

#include <Python.h>

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/log.h"
#include "capture/python/frame/warnings.h"

namespace vesta::capture {
namespace {

thread_local int holds = 0;  // scopes of this thread
thread_local int kept = 0;   // releases that were none, and whose other half is still to come

PyThreadState* save_thread() {
  if (holds == 0) return PyEval_SaveThread();
  ++kept;
  return PyThreadState_Get();
}

void restore_thread(PyThreadState* t) {
  if (kept == 0) return PyEval_RestoreThread(t);
  --kept;
}

// Functions are found through the table of a library's relocations (System V ABI, "Procedure Linkage Table"): each one
// of these points to the place from where the library takes a function's address.
#if defined(__aarch64__)
constexpr uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT, kGlobalData = R_AARCH64_GLOB_DAT;
#else
constexpr uint32_t kJumpSlot = R_X86_64_JUMP_SLOT, kGlobalData = R_X86_64_GLOB_DAT;
#endif

bool write_place(uintptr_t place, void* function) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  if (mprotect(reinterpret_cast<void*>(place & ~(page - 1)), page, PROT_READ | PROT_WRITE) != 0) return false;
  __atomic_store_n(reinterpret_cast<void**>(place), function, __ATOMIC_RELEASE);
  return true;
}

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

bool redirect(const dl_phdr_info& library, std::string_view name, void* function) {
  const Tables t = tables_of(library);
  if (!t.symbols || !t.names) return false;
  bool found = false;
  for (int table = 0; table < 2; ++table) {
    const size_t count = t.relocations[table] ? t.sizes[table] / sizeof(ElfW(Rela)) : 0;
    for (size_t i = 0; i < count; ++i) {
      const ElfW(Rela)& r = t.relocations[table][i];
      const auto type = static_cast<uint32_t>(ELF64_R_TYPE(r.r_info));
      if (type != kJumpSlot && type != kGlobalData) continue;
      if (name != t.names + t.symbols[ELF64_R_SYM(r.r_info)].st_name) continue;
      if (!write_place(library.dlpi_addr + r.r_offset, function)) return false;
      found = true;
    }
  }
  return found;
}

int visit(dl_phdr_info* library, size_t, void* done) {
  if (!std::strstr(library->dlpi_name, "libtorch_python")) return 0;
  // Both or neither: each is right alone as long as nothing is kept.
  *static_cast<bool*>(done) = redirect(*library, "PyEval_RestoreThread", reinterpret_cast<void*>(restore_thread)) &&
                              redirect(*library, "PyEval_SaveThread", reinterpret_cast<void*>(save_thread));
  // It does not depend on the two others. If it fails, each warning is given once, while the program is traced.
  redirect(*library, "PyErr_WarnEx", reinterpret_cast<void*>(warn));
  return 1;
}

}  // namespace

GilHold::GilHold() { ++holds; }
GilHold::~GilHold() { --holds; }

void install_gil_hold() {
  bool done = false;
  dl_iterate_phdr(visit, &done);
  if (!done) log::print(log::Topic::Fallbacks, "torch's operators release the GIL while a frame is traced");
}

}  // namespace vesta::capture
