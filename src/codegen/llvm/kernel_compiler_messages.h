// What the process that compiles a large kernel is asked and answers, as bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/target.h"

namespace vesta::codegen {

// The program's exit statuses besides 0.
inline constexpr int kExhausted = 3;  // its memory
inline constexpr int kMalformed = 4;  // the request

struct KernelCompilerRequest {
  std::string fingerprint;  // llvm_fingerprint() of the process that asks
  std::string symbol, text;
  Target target;       // the fields that code depends on
  int64_t memory = 0;  // bytes that the program may allocate
  std::string fault;   // for tests: "crash", "memory", "delay", which waits for a minute, or empty
};

struct KernelCompilerAnswer {
  std::string object;
  std::string error;  // of a kernel that cannot be compiled; empty: none
};

std::string to_bytes(const KernelCompilerRequest& r);
std::string to_bytes(const KernelCompilerAnswer& a);
// Throw InternalError where the bytes are malformed or cut short.
KernelCompilerRequest request_of(std::string_view bytes);
KernelCompilerAnswer answer_of(std::string_view bytes);

}  // namespace vesta::codegen
