// NVIDIA's linker for code made at run time (nvJitLink manual), opened at run time. It compiles PTX to machine code in
// many threads at once, whereas NVRTC's threads wait for one another.
#pragma once

#include <optional>
#include <string>

#include "machine/cuda/shared_library.h"

namespace vesta::codegen {

class JitLink {
 public:
  // The linker that belongs to the NVRTC of this major version; nullptr: there is none. Thread-safe.
  static const JitLink* get(int major);
  // The names and folders under which a linker of any version is searched.
  static machine::LibrarySearch search();

  const std::string& file() const { return file_; }

  // A cubin for GPUs of compute capability arch / 10, arch % 10; nullopt if the linker rejects the text. Thread-safe.
  std::optional<std::string> cubin(const std::string& ptx, const std::string& name, int arch) const;

 private:
  struct Functions;
  JitLink(const Functions* functions, std::string file) : f_(functions), file_(std::move(file)) {}
  const Functions* f_;
  const std::string file_;
};

}  // namespace vesta::codegen
