// The bytes of a GPU kernel's object: a cubin for one generation of GPUs, and the PTX it was made from, which the
// drivers of all later generations finish. PTX alone where the generator knew no such generation.
#pragma once

#include <string>
#include <string_view>

namespace vesta::machine {

struct CudaCode {
  int arch = 0;            // 90 of compute capability 9.0; 0: there is no cubin
  bool waits = false;      // see DeviceKernel::waits
  std::string_view cubin;  // in the bytes that were read
  std::string ptx;         // ends with a zero byte, as the driver takes it; empty: not asked for
};

std::string write_cuda_code(int arch, bool waits, std::string_view cubin, std::string_view ptx);
// Throws InternalError where the bytes are no such object. The PTX is compressed: it is read if `with_ptx`.
CudaCode read_cuda_code(std::string_view bytes, bool with_ptx);

// Whether the cubin runs on a GPU of that compute capability: one of the same major version, and no older one.
bool runs_on(const CudaCode& code, int arch);

}  // namespace vesta::machine
