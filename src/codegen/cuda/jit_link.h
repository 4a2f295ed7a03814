// NVIDIA's linker for code made at run time, found at run time (nvJitLink manual): PTX to machine code, in many threads
// at once, where NVRTC's own threads wait for one another.
#pragma once

#include <optional>
#include <string>

namespace vesta::codegen {

class JitLink {
 public:
  // That of the NVRTC of this major version; nullptr: there is none. Thread-safe.
  static const JitLink* get(int major);

  // A cubin for GPUs of compute capability arch / 10, arch % 10. Nothing: it does not take the text. Thread-safe.
  std::optional<std::string> cubin(const std::string& ptx, const std::string& name, int arch) const;

 private:
  struct Functions;
  explicit JitLink(const Functions* functions) : f_(functions) {}
  const Functions* f_;
};

}  // namespace vesta::codegen
