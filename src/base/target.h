// The machine that a graph is compiled for, as plain data: what the plan, the code generator and the keys of stored
// artifacts know of it. A compile reads this and never the machine itself, so that equal targets give equal results
// wherever it runs, and a machine may compile for another one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/type.h"

namespace vesta {

struct Target {
  DeviceType device = DeviceType::CPU;
  // Code: what is generated depends on these.
  std::string triple;         // "x86_64-unknown-linux-gnu", LLVM's spelling
  std::string cpu;            // "znver4", LLVM's name; "x86-64-v3" and the like for CPUs that are not in the table
  std::string features;       // "+avx2,-avx512f,...": LLVM's names, sorted
  int64_t vector_bytes = 16;  // widest vector: 64 with AVX-512, 32 with AVX2, 16 otherwise
  bool avx512 = false;        // with BW, VL, DQ: masks are cheap
  bool half_convert = false;  // has vector instructions for float <-> half
  bool fma = false;
  bool streaming_stores = false;  // stores past the caches, and a fence for them
  // Plan: how work is cut depends on these. They are what the processor says of itself and what is usual, not what was
  // measured: machines of one kind then share stored artifacts, and no plan depends on what else ran that minute.
  int threads = 1;
  int64_t l1_bytes = 48 << 10;
  int64_t l2_bytes = 1 << 20;
  int64_t l3_bytes = 32 << 20;
  double memory_bytes_per_ns = 12;  // of one thread
  double cache_bytes_per_ns = 40;   // from its second level

  bool operator==(const Target&) const = default;
};

// Bytes of a GPU's shared memory that a block keeps for what its teams combine and for the system: what a launch asks
// for besides is at most l1_bytes less these.
inline constexpr int64_t kOwnShared = 4 << 10;

// This machine by cpuid, once per process. What ATEN_CPU_CAPABILITY forbids ATen's kernels it forbids ours.
const Target& host_target();

// What code for one target needs and another does not have: features, or its whole architecture or device.
std::vector<std::string> missing_features(const Target& code_for, const Target& machine);

// Everything that generated code depends on, and everything that plans depend on besides; for keys and `vesta env`.
std::string code_text(const Target& target);  // "x86_64-unknown-linux-gnu znver4 +adx,... vector 64"
std::string plan_text(const Target& target);  // "cpu, 2 threads, caches 49152, 1048576, 33554432 bytes, ..."

}  // namespace vesta
