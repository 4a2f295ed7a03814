// Compiles kernels to code, with the generator that serves the target (generator.h). A kernel's code depends on its
// text and the target's fingerprint alone.
#pragma once

#include <chrono>
#include <functional>

#include "base/cancel.h"
#include "base/target.h"
#include "machine/object.h"
#include "store/store.h"

namespace vesta::codegen {

// Whether a generator serves the target; otherwise every operator is a call into ATen, and `why` gets the reason of the
// last generator that was asked.
bool available(const Target& target, std::string* why = nullptr);
// Everything besides a kernel's text that its code depends on: the target, and the generator's version and sources;
// "none" if no generator serves the target.
const std::string& fingerprint(const Target& target);

struct CompileOptions {
  int workers = 0;                      // threads that compile; 0: one for each core
  std::string dump_dir;                 // if set: writes <dir>/<name>.ll and .s, or .cu and .cubin, for each kernel
  store::Store* store = nullptr;        // objects of earlier processes are read from it, new ones written to it
  const CancelToken* cancel = nullptr;  // asked before each kernel; if it is cancelled, compile() throws Cancelled
  int64_t memory = -1;                  // Options::compile_memory, for generators that are part of Vesta
  // How long another process may compile a kernel for which this one has too little memory (llvm/kernel_compiler.h).
  std::chrono::milliseconds kernel_compiler_time{60'000};
};

// What a generator made of a kernel.
struct Generated {
  std::string bytes;
  int64_t memory = 0;  // an estimate of what it took, in bytes
};

// Compiles distinct kernels (by text) in parallel, each once per process; as many side by side as the memory of the
// options allows. Equal text gives the same object while it has an owner, and equal bytes in every process and on every
// machine. Throws InternalError, Unsupported if no generator serves the target, and OverBudget
// (base/compile_memory.h) for a kernel that takes too much memory.
struct Request {
  std::string text;  // of a loops::Kernel, as print() gives it
  std::string name;  // for dumps: "k3_add_gelu"
};
enum class Origin : uint8_t { Compiled, Process, Store };  // compiled now; found in this process; read from the store
struct Result {
  std::shared_ptr<const machine::Object> object;
  Origin origin = Origin::Compiled;
  int64_t memory = 0;  // of Generated, if it was compiled now
};
std::vector<Result> compile(const std::vector<Request>& requests, const Target& target, const CompileOptions& options);

}  // namespace vesta::codegen
