// The machine that a graph is compiled for, as plain data: all that the plan, the code generator and the keys of stored
// artifacts know about it. A compile reads this and never the machine itself. So equal targets give equal results
// wherever the compile runs, and one machine can compile for another.
#pragma once

#include <string_view>
#include <vector>

#include "base/type.h"

namespace vesta {

struct Target {
  DeviceType device = DeviceType::CPU;
  // Code: generated code depends on these.
  std::string triple;         // "x86_64-unknown-linux-gnu", LLVM's spelling
  std::string cpu;            // "znver4", LLVM's name; "x86-64-v3" and the like for CPUs that are not in the table
  std::string features;       // "+avx2,-avx512f,...": LLVM's names, sorted
  int64_t vector_bytes = 16;  // widest vector: 64 with AVX-512, 32 with AVX2, 16 otherwise
  bool avx512 = false;        // with BW, VL, DQ: masks are cheap
  bool half_convert = false;  // has vector instructions for float <-> half
  bool fma = false;
  bool streaming_stores = false;  // has stores past the caches, and a fence for them
  // Plan: the division of work depends on these. They are typical values or what the processor reports, not
  // measurements, so that machines of one kind share stored artifacts and no plan depends on the load of a machine.
  int threads = 1;
  int64_t l1_bytes = 48 << 10;
  int64_t l2_bytes = 1 << 20;
  int64_t l3_bytes = 32 << 20;
  double memory_bytes_per_ns = 12;  // of one thread
  double cache_bytes_per_ns = 40;   // from a core's second cache level

  bool operator==(const Target&) const = default;
};

// Bytes of a GPU's shared memory that each block reserves for its teams' reductions and for the system. A launch may
// ask for at most l1_bytes less these.
inline constexpr int64_t kOwnShared = 4 << 10;

// This machine, by cpuid, once per process. A feature that the operating system refuses to this process is not there:
// for AMX, the first call asks Linux, so that code for a target of which nothing is missing may use it.
// ATEN_CPU_CAPABILITY limits Vesta's kernels as it limits ATen's.
const Target& host_target();

// Whether the target has the feature of this name (LLVM's).
bool has_feature(const Target& target, std::string_view name);

// The features that code for `code_for` needs and `machine` lacks, or the whole architecture or device.
std::vector<std::string> missing_features(const Target& code_for, const Target& machine);

// code_text: everything that generated code depends on. plan_text: what plans depend on besides. Both are used in keys
// and by `vesta env`.
std::string code_text(const Target& target);  // "x86_64-unknown-linux-gnu znver4 +adx,... vector 64"
std::string plan_text(const Target& target);  // "cpu, 2 threads, caches 49152, 1048576, 33554432 bytes, ..."

}  // namespace vesta
