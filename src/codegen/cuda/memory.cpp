#include "codegen/cuda/memory.h"

namespace vesta::codegen {
namespace {

constexpr int64_t kAny = 18 << 20;    // 12 MB for the smallest kernel, 16 MB for a softmax of rows in registers
constexpr int64_t kCheap = 96 << 10;  // at most 64 KB
// A function's code is inlined. For each unit of cost(), 0.01 to 0.22 MB; for remainders of floats 0.42 MB.
constexpr int64_t kUnit = 256 << 10, kUnitOfRemainder = 512 << 10;
constexpr int kCostOfCheap = 2;

int64_t memory(const loops::Instr& i) {
  if (i.kind != loops::InstrKind::Compute || cost(i.prim) <= kCostOfCheap) return kCheap;
  const bool remainder = (i.prim == Prim::Rem || i.prim == Prim::Mod) && is_float(i.dtype);
  return cost(i.prim) * (remainder ? kUnitOfRemainder : kUnit);
}

}  // namespace

int64_t nvrtc_memory(const loops::Kernel& kernel) {
  int64_t bytes = kAny;
  for (const loops::Instr& i : kernel.instrs) bytes += memory(i);
  return bytes;
}

}  // namespace vesta::codegen
