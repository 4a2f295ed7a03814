// Code generators are rows of a table (generators.cpp). A generator serves a target if it has the row's device and
// `available` is true. Each compile uses the first such row.
#pragma once

#include <span>

#include "codegen/codegen.h"

namespace vesta::codegen {

struct Generator {
  DeviceType device;
  std::string_view name;
  // Its code is faster than calls into ATen. If not, only what no operator of ATen computes becomes a kernel.
  bool fast;
  bool (*available)(const Target&, std::string* why);  // `why` may be null
  // Everything besides a kernel's text that its code depends on: the target, the generator's version and sources.
  const std::string& (*fingerprint)(const Target&);
  std::vector<Result> (*compile)(const std::vector<Request>&, const Target&, const CompileOptions&);
};

std::span<const Generator> generators();
const Generator* generator_for(const Target& target, std::string* why = nullptr);  // nullptr: no row serves it

// codegen/llvm; a build without LLVM has no such row.
bool llvm_available(const Target& target, std::string* why);
const std::string& llvm_fingerprint(const Target& target);
std::vector<Result> compile_with_llvm(const std::vector<Request>&, const Target&, const CompileOptions&);
// codegen/cuda
bool nvrtc_available(const Target& target, std::string* why);
const std::string& nvrtc_fingerprint(const Target& target);
std::vector<Result> compile_with_nvrtc(const std::vector<Request>&, const Target&, const CompileOptions&);
// codegen/interpreter
bool interprets(const Target& target, std::string* why);
const std::string& interpreter_fingerprint(const Target& target);
std::vector<Result> compile_to_text(const std::vector<Request>&, const Target&, const CompileOptions&);

}  // namespace vesta::codegen
