// NVIDIA's linker for code made at run time, found at run time (nvJitLink manual): PTX to machine code, in many threads
// at once, where NVRTC's own threads wait for one another.
#pragma once

#include <optional>
#include <string>

#include "machine/cuda/shared_library.h"

namespace vesta::codegen {

class JitLink {
 public:
  // That of the NVRTC of this major version; nullptr: there is none. Thread-safe.
  static const JitLink* get(int major);
  // Where that of any version is looked for.
  static machine::LibrarySearch search();

  const std::string& file() const { return file_; }

  // A cubin for GPUs of compute capability arch / 10, arch % 10. Nothing: it does not take the text. Thread-safe.
  std::optional<std::string> cubin(const std::string& ptx, const std::string& name, int arch) const;

 private:
  struct Functions;
  JitLink(const Functions* functions, std::string file) : f_(functions), file_(std::move(file)) {}
  const Functions* f_;
  const std::string file_;
};

}  // namespace vesta::codegen
