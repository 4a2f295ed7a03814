// Code generators are rows of a table (generators.cpp). A generator serves a target if it has the row's device and
// `available` is true.
#pragma once

#include "codegen/codegen.h"

namespace vesta::codegen {

struct Generator {
  DeviceType device;
  bool (*available)(const Target&, std::string* why);  // `why` may be null
  // Everything besides a kernel's text that its code depends on: the target, the generator's version and sources.
  const std::string& (*fingerprint)(const Target&);
  std::vector<Result> (*compile)(const std::vector<Request>&, const Target&, const CompileOptions&);
};

// codegen/llvm; a build without LLVM has no such row.
bool llvm_available(const Target& target, std::string* why);
const std::string& llvm_fingerprint(const Target& target);
std::vector<Result> compile_with_llvm(const std::vector<Request>&, const Target&, const CompileOptions&);
// codegen/cuda
bool nvrtc_available(const Target& target, std::string* why);
const std::string& nvrtc_fingerprint(const Target& target);
std::vector<Result> compile_with_nvrtc(const std::vector<Request>&, const Target&, const CompileOptions&);

}  // namespace vesta::codegen
