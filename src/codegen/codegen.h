// From kernels to machine code. One implementation is linked: codegen/llvm, or codegen/null in a build without LLVM,
// whose code interprets (src/loops/interpret.cpp).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "loops/kernel.h"

namespace vesta::codegen {

// buffers: one pointer per kernel buffer, offsets applied; sizes: values of Kernel::sizes; scratch: scratch_bytes(k)
// bytes of this thread, 64-byte aligned; runs the work items [begin, end).
using KernelFn = void (*)(void* const* buffers, const int64_t* sizes, void* scratch, int64_t begin, int64_t end);

// Machine code of one kernel; frees it when the last owner goes.
class Code {
 public:
  virtual ~Code() = default;
  virtual KernelFn entry() const = 0;  // valid as long as this object
  virtual size_t bytes() const = 0;
};

struct Target {
  std::string name;          // host CPU as LLVM names it
  int64_t vector_bytes = 0;  // widest vector the generator uses: 64 with AVX-512, 32 with AVX2, 16 otherwise
  std::string fingerprint;   // everything that must match for code to be reused
};
const Target& host_target();
bool available();  // false in a build without LLVM

struct CompileOptions {
  int workers = 0;       // threads for compiling; 0: all cores
  std::string dump_dir;  // if set: <dir>/<name>.ll and .s for each kernel
};

// Compiles distinct kernels (by text) in parallel, each once per process: equal text gives the same Code again while
// any owner lives. Throws InternalError.
struct Request {
  std::string text;  // of a loops::Kernel, as print gives it
  std::string name;  // for dumps and profilers: "k3_add_gelu"
};
std::vector<std::shared_ptr<const Code>> compile(const std::vector<Request>& requests, const CompileOptions& options);

}  // namespace vesta::codegen
