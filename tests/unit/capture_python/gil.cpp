// The GIL hold and the redirection of imported functions below it.
#include "capture/python/gil/gil_hold.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "capture/python/gil/relocations.h"
#include "python.h"

namespace vesta::capture::testing {
namespace {

constexpr pid_t kFake = -77;
pid_t fake_parent() { return kFake; }
// Not inlined, and through the library's own table.
__attribute__((noinline)) pid_t parent() { return getppid(); }

TEST(Relocations, ReplaceAFunctionInOneLibrary) {
  void* original = dlsym(RTLD_DEFAULT, "getppid");
  ASSERT_NE(original, nullptr);
  const pid_t before = parent();
  ASSERT_EQ(redirect_import("vesta_capture_tests", "getppid", reinterpret_cast<void*>(fake_parent)), Redirected::Done);
  EXPECT_EQ(parent(), kFake);
  EXPECT_EQ(reinterpret_cast<pid_t (*)()>(original)(), before);
  Python py;
  EXPECT_FALSE(py.holds("__import__('os').getppid() == -77"));  // another library
  ASSERT_EQ(redirect_import("vesta_capture_tests", "getppid", original), Redirected::Done);
  EXPECT_EQ(parent(), before);
}

TEST(Relocations, SayWhatIsMissing) {
  EXPECT_EQ(redirect_import("no such library", "getppid", nullptr), Redirected::NoLibrary);
  EXPECT_EQ(redirect_import("vesta_capture_tests", "no_such_function", nullptr), Redirected::NotImported);
}

// A library of one relocation, whose slot lies in `slots`.
struct OneImport {
  explicit OneImport(void* slot) {
    symbols[1].st_name = 1;
    std::strcpy(names + 1, "imported");
    relocation.r_offset = reinterpret_cast<ElfW(Addr)>(slot);
#if defined(__aarch64__)
    relocation.r_info = ELF64_R_INFO(1, R_AARCH64_GLOB_DAT);
#else
    relocation.r_info = ELF64_R_INFO(1, R_X86_64_GLOB_DAT);
#endif
    const auto address = [](const void* p) { return reinterpret_cast<ElfW(Addr)>(p); };
    dynamic[0] = {DT_SYMTAB, {address(symbols)}};
    dynamic[1] = {DT_STRTAB, {address(names)}};
    dynamic[2] = {DT_RELA, {address(&relocation)}};
    dynamic[3] = {DT_RELASZ, {sizeof(relocation)}};
    dynamic[4] = {DT_NULL, {0}};
    header.p_type = PT_DYNAMIC;
    header.p_vaddr = address(dynamic);
    info.dlpi_name = "one import";
    info.dlpi_phdr = &header;
    info.dlpi_phnum = 1;
  }
  ElfW(Sym) symbols[2] = {};
  char names[16] = {};
  ElfW(Rela) relocation = {};
  ElfW(Dyn) dynamic[5] = {};
  ElfW(Phdr) header = {};
  dl_phdr_info info = {};
};

TEST(Relocations, WriteTheSlotOfTheImport) {
  void* slots[4] = {};
  const OneImport library(&slots[2]);
  EXPECT_EQ(redirect_import(library.info, "imported", &slots), Redirected::Done);
  EXPECT_EQ(slots[2], static_cast<void*>(slots));
  EXPECT_EQ(slots[1], nullptr);
  EXPECT_EQ(redirect_import(library.info, "other", nullptr), Redirected::NotImported);
}

TEST(Relocations, SayThatTheTableIsReadOnly) {
  // A shared mapping of a file that is open for reading cannot be made writable.
  char name[] = "/tmp/vesta_read_only_XXXXXX";
  const int made = mkstemp(name);
  ASSERT_GE(made, 0);
  ASSERT_EQ(ftruncate(made, 4096), 0);
  const int file = open(name, O_RDONLY);
  void* page = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
  close(made);
  close(file);
  ::unlink(name);
  ASSERT_NE(page, MAP_FAILED);
  const OneImport library(page);
  EXPECT_EQ(redirect_import(library.info, "imported", reinterpret_cast<void*>(fake_parent)), Redirected::ReadOnly);
  EXPECT_EQ(*static_cast<void**>(page), nullptr);
  munmap(page, 4096);
}

// Whether another thread gets the GIL in this time, while this one calls operators.
bool another_thread_runs(Python& py, std::chrono::milliseconds limit) {
  // CPython's evaluator would let the other thread in: below, only torch's own code runs.
  const Object x = py.eval("torch.ones(10_000)"), name = py.eval("'neg'");
  std::atomic<bool> waits{false}, ran{false};
  std::thread other([&] {
    waits = true;
    const PyGILState_STATE state = PyGILState_Ensure();
    ran = true;
    PyGILState_Release(state);
  });
  while (!waits) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!ran && std::chrono::steady_clock::now() < end) Object::take(PyObject_CallMethodNoArgs(x.get(), name.get()));
  const bool found = ran;
  Py_BEGIN_ALLOW_THREADS;
  other.join();
  Py_END_ALLOW_THREADS;
  return found;
}

constexpr std::chrono::milliseconds kLong{20'000}, kShort{500};

TEST(GilHold, KeepsOtherThreadsOutWhileItLives) {
  Python py;
  EXPECT_TRUE(another_thread_runs(py, kLong));
  install_gil_hold();
  ASSERT_TRUE(gil_is_held()) << why_gil_is_not_held();
  EXPECT_TRUE(another_thread_runs(py, kLong));
  {
    const GilHold hold;
    EXPECT_FALSE(another_thread_runs(py, kShort));
  }
  EXPECT_TRUE(another_thread_runs(py, kLong));
}

}  // namespace
}  // namespace vesta::capture::testing
