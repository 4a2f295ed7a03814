#include "machine/cuda/code.h"

#include <zstd.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace vesta::machine {
namespace {

constexpr uint32_t kMagic = 0x32637576;  // "vuc2"
constexpr size_t kAlignment = 16;        // of the cubin, which readers need at an aligned address
constexpr uint64_t kMostPtx = 64 << 20;  // bytes
constexpr int kLevel = 3;

struct Head {
  uint32_t magic = kMagic;
  uint32_t arch = 0;
  uint32_t cubin_bytes = 0;
  uint32_t ptx_bytes = 0;         // with its zero byte
  uint32_t compressed_bytes = 0;  // after the cubin
  uint32_t waits = 0;
  std::array<uint32_t, 2> unused = {};
};
static_assert(sizeof(Head) % kAlignment == 0);

}  // namespace

std::string write_cuda_code(int arch, bool waits, std::string_view cubin, std::string_view ptx) {
  const std::string text = std::string(ptx) + '\0';
  std::string compressed(ZSTD_compressBound(text.size()), '\0');
  const size_t bytes = ZSTD_compress(compressed.data(), compressed.size(), text.data(), text.size(), kLevel);
  VESTA_CHECK(!ZSTD_isError(bytes), "PTX is not compressed: {}", ZSTD_getErrorName(bytes));
  compressed.resize(bytes);
  const Head head{kMagic,
                  static_cast<uint32_t>(arch),
                  static_cast<uint32_t>(cubin.size()),
                  static_cast<uint32_t>(text.size()),
                  static_cast<uint32_t>(bytes),
                  waits};
  std::string out(sizeof head, '\0');
  std::memcpy(out.data(), &head, sizeof head);
  return out.append(cubin).append(compressed);
}

CudaCode read_cuda_code(std::string_view bytes, bool with_ptx) {
  Head head;
  VESTA_CHECK(bytes.size() >= sizeof head, "{} bytes are not code for a GPU", bytes.size());
  std::memcpy(&head, bytes.data(), sizeof head);
  VESTA_CHECK(head.magic == kMagic && head.ptx_bytes <= kMostPtx &&
                  bytes.size() == sizeof head + uint64_t{head.cubin_bytes} + head.compressed_bytes &&
                  (head.arch == 0) == (head.cubin_bytes == 0),
              "the bytes are not code for a GPU");
  CudaCode code;
  code.arch = static_cast<int>(head.arch);
  code.waits = head.waits != 0;
  code.cubin = bytes.substr(sizeof head, head.cubin_bytes);
  if (!with_ptx) return code;
  code.ptx.resize(head.ptx_bytes);
  const size_t read = ZSTD_decompress(code.ptx.data(), code.ptx.size(), bytes.data() + sizeof head + head.cubin_bytes,
                                      head.compressed_bytes);
  VESTA_CHECK(!ZSTD_isError(read) && read == code.ptx.size() && read > 0 && code.ptx.back() == '\0', "no PTX");
  return code;
}

bool runs_on(const CudaCode& code, int arch) {
  return code.arch > 0 && code.arch / 10 == arch / 10 && code.arch % 10 <= arch % 10;
}

}  // namespace vesta::machine
