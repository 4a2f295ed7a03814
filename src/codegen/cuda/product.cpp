#include "codegen/cuda/product.h"

#include <fmt/format.h>

namespace vesta::codegen {

// A slice has 64 elements of each row, 128 bytes. Its pieces of 16 bytes are permuted by the row's last three bits (the
// 128-byte swizzle of wgmma), so that rows lie in different banks.
const char* const kProductPrelude = R"(
#ifndef VESTA_PRODUCTS
#define VESTA_PRODUCTS
// The byte of element k of a row, in a slice.
__device__ __forceinline__ int slice_byte(int row, int k) { return row * 128 + ((k / 8 ^ row % 8) * 16) + k % 8 * 2; }

#ifndef VESTA_ON_HOST
__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void barrier_init(u64* b, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(b)), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u64* b) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.shared::cta.b64 t, [%0]; }" :: "r"(shared_address(b)) : "memory");
}
// Arrives when the calling thread's copies have ended.
__device__ __forceinline__ void barrier_arrive_after_copies(u64* b) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(shared_address(b)) : "memory");
}
// Waits for the end of a phase with this parity.
__device__ __forceinline__ void barrier_wait(u64* b, int parity) {
  asm volatile("{ .reg .pred p; WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra WAIT; }"
               :: "r"(shared_address(b)), "r"(parity) : "memory");
}
// An address in shared memory. Each lane exchanges it with itself, so that ptxas does not see it as the sum of a register
// and a uniform register. For such a sum, ptxas 13.0 makes a copy that is an illegal instruction.
typedef u32 Place;
__device__ __forceinline__ Place place_of(const void* p) {
  return __shfl_sync(0xffffffffu, shared_address(p), (int)threadIdx.x % 32);
}
// Copies 16 bytes to shared memory; where `on` is false, it writes zeros and reads nothing. AGAIN: other blocks read these
// bytes, too, so the second-level cache keeps them. It gives up the others first.
template <bool AGAIN> __device__ __forceinline__ void copy_piece(Place to, const u8* from, bool on, u64 policy) {
  if (AGAIN) {
    asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;"
                 :: "r"(to), "l"(from), "r"(on ? 16 : 0), "l"(policy) : "memory");
  } else {
    asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::256B [%0], [%1], 16, %2, %3;"
                 :: "r"(to), "l"(from), "r"(on ? 16 : 0), "l"(policy) : "memory");
  }
}
template <bool AGAIN> __device__ __forceinline__ u64 cache_policy() {
  u64 p;
  if (AGAIN) {
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(p));
  } else {
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(p));
  }
  return p;
}
__device__ __forceinline__ void consumers_meet() { asm volatile("bar.sync 1, 256;" ::: "memory"); }
// Adds up N adjacent floats at this address of the shared memory of each part.
template <int PARTS, int N> __device__ __forceinline__ void take_sums(float (&x)[N], const float* at) {
  if constexpr (PARTS == 1) {
    const Pack<float, N> own = *(const Pack<float, N>*)at;
#pragma unroll
    for (int n = 0; n < N; ++n) x[n] = own.v[n];
  } else {
#pragma unroll
    for (int n = 0; n < N; ++n) x[n] = 0;
#pragma unroll
    for (int p = 0; p < PARTS; ++p)
#pragma unroll
      for (int n = 0; n < N; n += N < 4 ? 1 : 4) {
        if constexpr (N < 4) {
          float v;
          asm volatile("{ .reg .b32 r; mapa.shared::cluster.u32 r, %1, %2; ld.shared::cluster.f32 %0, [r]; }"
                       : "=f"(v) : "r"(shared_address(at + n)), "r"(p) : "memory");
          x[n] += v;
        } else {
          float v[4];
          asm volatile("{ .reg .b32 r; mapa.shared::cluster.u32 r, %4, %5; ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [r]; }"
                       : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "r"(shared_address(at + n)), "r"(p) : "memory");
#pragma unroll
          for (int i = 0; i < 4; ++i) x[n + i] += v[i];
        }
      }
  }
}
// Registers move from the threads that copy to those that multiply.
__device__ __forceinline__ void give_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.dec.sync.aligned.u32 104;");
#endif
}
__device__ __forceinline__ void take_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.inc.sync.aligned.u32 200;");
#endif
}
#endif

// The address of a row of 8 rows of 128 bytes, as wgmma takes it.
__device__ __forceinline__ u64 slice_descriptor(u32 address) {
  return (u64)((address & 0x3ffffu) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
template <int N, bool BF16> struct Multiply;

// Adds the products of 64 rows and N columns of a slice. A thread has, of each 8 columns, two neighbours in two rows:
// element 4 g + 2 h + j is in row threadIdx % 128 / 32 * 16 + threadIdx % 32 / 4 + 8 h and column 8 g + threadIdx % 4 * 2
// + j. On tensor cores that run beside the thread, the slice is in use until the next call or finish_multiplying.
template <int N, bool BF16> __device__ __forceinline__ void multiply_slice(float (&d)[N / 2], const u8* rows, const u8* columns) {
  const int first = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4, pair = threadIdx.x % 4 * 2;
#if defined(VESTA_ON_HOST)
  for (int i = 0; i < N / 2; ++i) {
    const int r = first + i / 2 % 2 * 8, c = i / 4 * 8 + pair + i % 2;
    for (int k = 0; k < 64; ++k) {
      const u16 x = *(const u16*)(rows + slice_byte(r, k)), y = *(const u16*)(columns + slice_byte(c, k));
      d[i] += BF16 ? from_bf16(x) * from_bf16(y) : from_f16(x) * from_f16(y);
    }
  }
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
#pragma unroll
  for (int i = 0; i < N / 2; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  const u64 a = slice_descriptor(shared_address(rows)), b = slice_descriptor(shared_address(columns));
#pragma unroll
  for (int i = 0; i < 4; ++i) Multiply<N, BF16>::step(d, a + i * 2, b + i * 2);
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;" ::: "memory");
#else
  for (int k = 0; k < 64; k += 16) {
    u32 a[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = *(const u32*)(rows + slice_byte(first + i % 2 * 8, k + i / 2 * 8 + pair));
#pragma unroll
    for (int g = 0; g < N / 8; ++g) {
      const int c = g * 8 + threadIdx.x % 32 / 4;
      const u32 b0 = *(const u32*)(columns + slice_byte(c, k + pair)), b1 = *(const u32*)(columns + slice_byte(c, k + 8 + pair));
      if (BF16) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[g * 4]), "+f"(d[g * 4 + 1]), "+f"(d[g * 4 + 2]), "+f"(d[g * 4 + 3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
      } else {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[g * 4]), "+f"(d[g * 4 + 1]), "+f"(d[g * 4 + 2]), "+f"(d[g * 4 + 3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
      }
    }
  }
#endif
}
template <int N> __device__ __forceinline__ void finish_multiplying(float (&d)[N]) {
#if !defined(VESTA_ON_HOST) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
#endif
}

// Computes ROWS by COLUMNS sums of K products, or of this part of K, and leaves them in shared memory, `pitch` floats
// from row to row. row(n) and column(n) are the first element of an operand's row; only the first `height` rows are read.
// Returns nullptr to the threads that only copy. EARLY: the columns may be read before the kernels before this one have ended.
template <int ROWS, int COLUMNS, int STAGES, int PARTS, int K, bool BF16, bool EARLY, class Row, class Column>
__device__ __forceinline__ float* product(int pitch, u8* memory, int height, Row row, Column column) {
  constexpr int kRowBytes = ROWS * 128, kBytes = (ROWS + COLUMNS) * 128, kConsumers = 256;
  // Two teams of consumers multiply 64 rows each, or the same rows of every other slice.
  constexpr int kApart = ROWS == 64 ? 2 : 1;
  constexpr int kRowPieces = ROWS / 16, kColumnPieces = COLUMNS / 16, kSlices = (K + 63) / 64;
  constexpr int kOfPart = (kSlices + PARTS - 1) / PARTS;
  u64* const full = (u64*)memory;
  u64* const empty = full + STAGES;
  u8* const slices = (u8*)(((u64)(empty + STAGES) + 1023) / 1024 * 1024);
  const int from = own_part<PARTS>() * kOfPart, to = from + kOfPart < kSlices ? from + kOfPart : kSlices;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      barrier_init(full + s, 128);
      barrier_init(empty + s, kConsumers / 32 / kApart);
    }
#ifndef VESTA_ON_HOST
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
  }
  __syncthreads();
  if (threadIdx.x >= kConsumers) {
    give_registers();
    const int thread = (int)(threadIdx.x % 128u), piece = thread % 8, first = thread / 8;
    const u64 again = cache_policy<true>(), once = cache_policy<false>();
    const u8 *rows[kRowPieces], *columns[kColumnPieces];
#pragma unroll
    for (int p = 0; p < kColumnPieces; ++p) columns[p] = column(first + p * 16);
#pragma unroll
    for (int p = 0; p < kRowPieces; ++p) rows[p] = row(first + p * 16 < height ? first + p * 16 : 0);
    u8* const own = slices + slice_byte(first, piece * 8);
    const auto within = [&](int slice) { return K % 64 == 0 || slice * 64 + piece * 8 < K; };
    const auto copy_columns = [&](int slice, Place to) {
#pragma unroll
      for (int p = 0; p < kColumnPieces; ++p) {
        copy_piece<false>(to + kRowBytes + p * 2048, columns[p] + slice * 128 + piece * 16, within(slice), once);
      }
    };
    const auto copy_rows = [&](int slice, int s, Place to) {
#pragma unroll
      for (int p = 0; p < kRowPieces; ++p) {
        copy_piece<true>(to + p * 2048, rows[p] + slice * 128 + piece * 16, within(slice) && first + p * 16 < height, again);
      }
      barrier_arrive_after_copies(full + s);
    };
    int slice = from;
    if (EARLY) {
#pragma unroll 1
      for (int s = 0; s < STAGES && from + s < to; ++s) copy_columns(from + s, place_of(own + s * kBytes));
      wait_for_earlier_kernels();
#pragma unroll 1
      for (int s = 0; s < STAGES && slice < to; ++s, ++slice) copy_rows(slice, s, place_of(own + s * kBytes));
    } else {
      wait_for_earlier_kernels();
    }
#pragma unroll 1
    for (int s = 0; slice < to; ++slice) {
      if (slice - from >= STAGES) barrier_wait(empty + s, (slice - from) / STAGES % 2 ^ 1);
      const Place place = place_of(own + s * kBytes);
      copy_columns(slice, place);
      copy_rows(slice, s, place);
      s = s + 1 == STAGES ? 0 : s + 1;
    }
    if (PARTS > 1) {
      parts_meet();
      parts_meet();
    }
    return nullptr;
  }
  take_registers();
  float sums[COLUMNS / 2];
#pragma unroll
  for (int i = 0; i < COLUMNS / 2; ++i) sums[i] = 0;
  const int team = (int)threadIdx.x / 128;
  const int turn = kApart > 1 ? team : 0, part_of_rows = kApart > 1 ? 0 : team * 8192;
#pragma unroll 1
  for (int slice = from + turn; slice < to; slice += kApart) {
    const int s = (slice - from) % STAGES;
    barrier_wait(full + s, (slice - from) / STAGES % 2);
#ifndef VESTA_ON_HOST
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
    multiply_slice<COLUMNS, BF16>(sums, slices + s * kBytes + part_of_rows, slices + s * kBytes + kRowBytes);
    if (slice >= from + kApart && threadIdx.x % 32 == 0) barrier_arrive(empty + (slice - from - kApart) % STAGES);
  }
  finish_multiplying(sums);
  wait_for_earlier_kernels();
  consumers_meet();
  float* const results = (float*)slices;
  const int r = (int)threadIdx.x / 32 % (ROWS / 16) * 16 + (int)threadIdx.x % 32 / 4, c = (int)threadIdx.x % 4 * 2;
  const auto result = [&](int i) -> float& { return results[(r + i / 2 % 2 * 8) * pitch + i / 4 * 8 + c + i % 2]; };
  if (turn == 0) {
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; ++i) result(i) = sums[i];
  }
  consumers_meet();
  if (kApart > 1) {
    if (turn == 1) {
#pragma unroll
      for (int i = 0; i < COLUMNS / 2; ++i) result(i) += sums[i];
    }
    consumers_meet();
  }
  if (PARTS > 1) parts_meet();
  return results;
}
#endif
)";

std::string product_instruction(int64_t columns) {
  std::string d, outputs;
  for (int64_t i = 0; i < columns / 2; ++i) {
    d += fmt::format("{}%{}", i ? ", " : "", i);
    outputs += fmt::format("{}\"+f\"(d[{}])", i ? ", " : "", i);
  }
  std::string text = fmt::format(
      "#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && !defined(VESTA_MULTIPLY_{0})\n#define VESTA_MULTIPLY_{0}\n", columns);
  for (const bool bf16 : {false, true}) {
    const char* const type = bf16 ? "bf16" : "f16";
    text += fmt::format(
        "template <> struct Multiply<{0}, {1}> {{\n"
        "  static __device__ __forceinline__ void step(float (&d)[{2}], u64 a, u64 b) {{\n"
        "    asm volatile(\"wgmma.mma_async.sync.aligned.m64n{0}k16.f32.{3}.{3} {{{4}}}, %{2}, %{5}, 1, 1, 1, 0, 0;\"\n"
        "                 : {6} : \"l\"(a), \"l\"(b));\n"
        "  }}\n"
        "}};\n",
        columns, bf16, columns / 2, type, d, columns / 2 + 1, outputs);
  }
  return text + "#endif\n";
}

}  // namespace vesta::codegen
