// NVIDIA's run-time compiler, opened at run time (NVRTC manual, CUDA toolkit 12 and 13). Nothing of CUDA is linked.
#pragma once

#include <string>
#include <vector>

#include "machine/cuda/shared_library.h"

namespace vesta::codegen {

class Nvrtc {
 public:
  // nullptr: this process has no NVRTC; `why` gets the reason. Determined once per process. Thread-safe.
  static const Nvrtc* get(std::string* why = nullptr);

  // The names and folders under which NVRTC is searched. $VESTA_NVRTC takes precedence.
  static machine::LibrarySearch search();

  const std::string& file() const { return file_; }
  std::string version() const;  // "13.0"
  int major() const;
  std::vector<int> architectures() const;  // the GPUs that it makes code for: 75, 80, 86, ...
  // Whether it makes code for an architecture, as its option names it: "sm_90a". Thread-safe.
  bool takes(const std::string& arch) const;
  // A cubin for this architecture, PTX for GPUs of compute capability arch / 10, arch % 10. Throw InternalError with
  // the compiler's messages. Thread-safe.
  std::string cubin(const std::string& source, const std::string& name, const std::string& arch) const;
  std::string ptx(const std::string& source, const std::string& name, int arch) const;

 private:
  struct Functions;
  Nvrtc(const Functions* functions, std::string file) : f_(functions), file_(std::move(file)) {}
  std::string compile(const std::string& source, const std::string& name, const std::string& arch, bool binary) const;
  const Functions* f_;
  const std::string file_;
};

}  // namespace vesta::codegen
