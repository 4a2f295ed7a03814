// The program vesta_kernel_compiler: compiles one kernel and ends (../kernel_compiler.h).
#include <llvm/Support/ErrorHandling.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>
#include <thread>

#include "codegen/generator.h"
#include "codegen/llvm/kernel.h"
#include "codegen/llvm/kernel_compiler_messages.h"
#include "codegen/llvm/target.h"
#include "machine/child.h"
#include "vesta/error.h"

namespace {

using namespace vesta;
using codegen::KernelCompilerAnswer;
using codegen::KernelCompilerRequest;

constexpr int kLowPriority = 10;  // a nice value, as that of compiles for which nobody waits

[[noreturn]] void out_of_memory() { _exit(codegen::kExhausted); }

std::string read_all() {
  std::string bytes;
  char part[1 << 16];
  for (ssize_t n = 0; (n = read(STDIN_FILENO, part, sizeof(part))) > 0;) bytes.append(part, static_cast<size_t>(n));
  return bytes;
}

bool write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// A line of /proc/self/status, in bytes.
int64_t status_bytes(const std::string& name) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name + ":")) return std::atoll(line.c_str() + name.size() + 1) << 10;
  return 0;
}

void limit_memory(int64_t bytes) {
  std::set_new_handler(out_of_memory);
  llvm::install_bad_alloc_error_handler([](void*, const char*, bool) { out_of_memory(); });
  const int64_t left = std::max<int64_t>(0, bytes - status_bytes("RssAnon"));
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = std::min(limit.rlim_max, static_cast<rlim_t>(status_bytes("VmSize") + left));
  setrlimit(RLIMIT_AS, &limit);
}

void have_fault(const std::string& kind) {
  if (kind == "crash") std::abort();
  if (kind == "delay") std::this_thread::sleep_for(std::chrono::minutes(1));
  if (kind != "memory") return;
  for (;;) *new volatile char[1 << 20] = 1;
}

KernelCompilerAnswer answer_to(const KernelCompilerRequest& request) {
  if (request.fingerprint != codegen::llvm_fingerprint(request.target))
    return {{}, "it cannot be compiled: the program vesta_kernel_compiler is of another version"};
  codegen::thread_target_machine(request.target);
  limit_memory(request.memory);
  have_fault(request.fault);
  try {
    return {codegen::make_object(request.text, request.symbol, request.target, {}), {}};
  } catch (const std::exception& e) {
    return {{}, e.what()};
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2 || !machine::leave_with_parent(arguments[1])) return codegen::kMalformed;
  setpriority(PRIO_PROCESS, 0, std::max(getpriority(PRIO_PROCESS, 0), kLowPriority));
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  try {
    return write_all(to_bytes(answer_to(codegen::request_of(read_all())))) ? 0 : codegen::kMalformed;
  } catch (const std::exception&) {
    return codegen::kMalformed;
  }
}
