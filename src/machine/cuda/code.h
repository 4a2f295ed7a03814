// The bytes of a GPU kernel's object: a cubin for one generation of GPUs, and the PTX that it was made from, which the
// drivers of later generations compile. If the generator knew no suitable generation there is only PTX. Every read is
// checked against the end of the bytes.
#pragma once

#include <string>
#include <string_view>

namespace vesta::machine {

struct CudaCode {
  int arch = 0;            // 90 for compute capability 9.0; 0: there is no cubin
  bool waits = false;      // see DeviceKernel::waits
  std::string_view cubin;  // points into the bytes that were read
  std::string ptx;         // ends with a zero byte, as the driver requires; empty: not asked for
};

std::string write_cuda_code(int arch, bool waits, std::string_view cubin, std::string_view ptx);
// Throws InternalError for malformed bytes. The PTX is stored compressed and read only if `with_ptx`.
CudaCode read_cuda_code(std::string_view bytes, bool with_ptx);

// Whether the cubin runs on a GPU of this compute capability: it needs the same major version and a minor version that
// is not older.
bool runs_on(const CudaCode& code, int arch);

}  // namespace vesta::machine
