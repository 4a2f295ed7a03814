#include "codegen/cuda/product.h"

#include <fmt/format.h>

namespace vesta::codegen {

// A slice has 128 bytes of each row. Its pieces of 16 bytes are permuted by the row's last three bits (the 128-byte
// swizzle of wgmma), so that rows lie in different banks.
const char* const kProductPrelude = R"(
#ifndef VESTA_PRODUCTS
#define VESTA_PRODUCTS
// Types of the rows' elements and of the columns'.
enum Operands { F16_F16, BF16_BF16, E4M3_E4M3, E4M3_E5M2, E5M2_E4M3, E5M2_E5M2 };
__device__ constexpr bool are_float8(Operands t) { return t >= E4M3_E4M3; }
// Where byte k of a row is in a slice.
__device__ __forceinline__ int slice_byte(int row, int k) { return row * 128 + ((k / 16 ^ row % 8) * 16) + k % 16; }

// a / b, to within 2 units in the last place, which is less than the error of the sums. It has no branch, so that a thread
// computes its elements side by side. Scaling by a power of two keeps the reciprocal a normal number.
__device__ __forceinline__ float quotient(float a, float b) {
#ifdef VESTA_ON_HOST
  return a / b;
#else
  const float for_large = fabsf(b) > bits_float(0x5f800000u) ? bits_float(0x1f800000u) : 1.0f;
  const float scale = fabsf(b) < bits_float(0x1f800000u) ? bits_float(0x5f800000u) : for_large;
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(b * scale));
  return a * scale * r;
#endif
}

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
template <int N, Operands T> struct Multiply;
#if defined(VESTA_ON_HOST)
template <Operands T> static float product_on_host(const u8* x, const u8* y) {
  if (T == F16_F16) return from_f16(*(const u16*)x) * from_f16(*(const u16*)y);
  if (T == BF16_BF16) return from_bf16(*(const u16*)x) * from_bf16(*(const u16*)y);
  return (T == E4M3_E4M3 || T == E4M3_E5M2 ? from_f8e4m3fn(*x) : from_f8e5m2(*x)) *
         (T == E4M3_E4M3 || T == E5M2_E4M3 ? from_f8e4m3fn(*y) : from_f8e5m2(*y));
}
#else
// Adds the products of 16 rows and 8 columns of 32 bytes each.
template <Operands T> __device__ __forceinline__ void multiply_small(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#define VESTA_SMALL(SHAPE, TYPES)                                                                                    \
  asm("mma.sync.aligned." SHAPE ".row.col.f32." TYPES ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
  if constexpr (T == F16_F16) VESTA_SMALL("m16n8k16", "f16.f16");
  if constexpr (T == BF16_BF16) VESTA_SMALL("m16n8k16", "bf16.bf16");
  if constexpr (T == E4M3_E4M3) VESTA_SMALL("m16n8k32", "e4m3.e4m3");
  if constexpr (T == E4M3_E5M2) VESTA_SMALL("m16n8k32", "e4m3.e5m2");
  if constexpr (T == E5M2_E4M3) VESTA_SMALL("m16n8k32", "e5m2.e4m3");
  if constexpr (T == E5M2_E5M2) VESTA_SMALL("m16n8k32", "e5m2.e5m2");
}
#endif

// Adds the products of 64 rows and N columns of a slice; FIRST: to zero, whatever d was. A thread has, of each 8 columns, two neighbours in two rows:
// element 4 g + 2 h + j is in row threadIdx % 128 / 32 * 16 + threadIdx % 32 / 4 + 8 h and column 8 g + threadIdx % 4 * 2
// + j. On tensor cores that run beside the thread, the slice is in use until the next call or finish_multiplying.
template <int N, Operands T, bool FIRST> __device__ __forceinline__ void multiply_slice(float (&d)[N / 2], const u8* rows, const u8* columns) {
  const int first = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4, pair = threadIdx.x % 4 * 2;
#if defined(VESTA_ON_HOST)
  for (int i = 0; i < N / 2; ++i) {
    const int r = first + i / 2 % 2 * 8, c = i / 4 * 8 + pair + i % 2;
    if (FIRST) d[i] = 0;
    for (int k = 0; k < 128; k += are_float8(T) ? 1 : 2)
      d[i] += product_on_host<T>(rows + slice_byte(r, k), columns + slice_byte(c, k));
  }
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
#pragma unroll
  for (int i = 0; i < N / 2; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  const u64 a = slice_descriptor(shared_address(rows)), b = slice_descriptor(shared_address(columns));
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (FIRST && i == 0) {
      Multiply<N, T>::first(d, a, b);
    } else {
      Multiply<N, T>::step(d, a + i * 2, b + i * 2);
    }
  }
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;" ::: "memory");
#else
  if (FIRST) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) d[i] = 0;
  }
  for (int k = 0; k < 128; k += 32) {
    u32 a[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = *(const u32*)(rows + slice_byte(first + i % 2 * 8, k + i / 2 * 16 + pair * 2));
#pragma unroll
    for (int g = 0; g < N / 8; ++g) {
      const int row = g * 8 + threadIdx.x % 32 / 4;
      const u32 b[2] = {*(const u32*)(columns + slice_byte(row, k + pair * 2)), *(const u32*)(columns + slice_byte(row, k + 16 + pair * 2))};
      multiply_small<T>(*(float(*)[4])(d + g * 4), a, b);
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

// Computes ROWS by COLUMNS sums of the products of rows of BYTES, or of this part of them, and leaves them in shared memory, `pitch` floats
// from row to row. row(n) and column(n) are the first element of an operand's row; only the first `height` rows are read.
// Returns nullptr to the threads that only copy. EARLY: the columns may be read before the kernels before this one have ended.
template <int ROWS, int COLUMNS, int STAGES, int PARTS, int BYTES, Operands T, bool EARLY, class Row, class Column>
__device__ __forceinline__ float* product(int pitch, u8* memory, int height, Row row, Column column) {
  constexpr int kRowBytes = ROWS * 128, kBytes = (ROWS + COLUMNS) * 128, kConsumers = 256;
  // Two teams of consumers share the rows, 64 at once, or multiply the same rows of every other slice.
  constexpr int kApart = ROWS == 64 ? 2 : 1, kTimes = ROWS > 128 ? ROWS / 128 : 1;
  constexpr int kRowPieces = ROWS / 16, kColumnPieces = COLUMNS / 16, kSlices = (BYTES + 127) / 128;
  constexpr int kOfPart = (kSlices + PARTS - 1) / PARTS;
  u64* const full = (u64*)memory;
  u64* const empty = full + STAGES;
  u8* const slices = (u8*)(empty + STAGES) + (1023 & (int)-(u64)(empty + STAGES));  // a multiple of 1024
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
    u8* const own = slices + slice_byte(first, piece * 16);
    const auto within = [&](int slice) { return BYTES % 128 == 0 || slice * 128 + piece * 16 < BYTES; };
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
  float sums[kTimes][COLUMNS / 2];
#pragma unroll
  for (int i = 0; i < kTimes * COLUMNS / 2; ++i) sums[i / (COLUMNS / 2)][i % (COLUMNS / 2)] = 0;
  const int team = (int)threadIdx.x / 128;
  const int turn = kApart > 1 ? team : 0, part_of_rows = kApart > 1 ? 0 : team * kTimes * 8192;
#pragma unroll 1
  for (int slice = from + turn; slice < to; slice += kApart) {
    const int s = (slice - from) % STAGES;
    barrier_wait(full + s, (slice - from) / STAGES % 2);
#ifndef VESTA_ON_HOST
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
    const u8* const rows = slices + s * kBytes + part_of_rows;
    const u8* const columns = slices + s * kBytes + kRowBytes;
#pragma unroll
    for (int t = 0; t < kTimes; ++t) {
      if constexpr (are_float8(T)) {
        float of_slice[COLUMNS / 2];
        multiply_slice<COLUMNS, T, true>(of_slice, rows + t * 8192, columns);
        finish_multiplying(of_slice);
        if (t == kTimes - 1 && threadIdx.x % 32 == 0) barrier_arrive(empty + s);
#pragma unroll
        for (int i = 0; i < COLUMNS / 2; ++i) sums[t][i] += of_slice[i];
      } else {
        multiply_slice<COLUMNS, T, false>(sums[t], rows + t * 8192, columns);
      }
    }
    if (!are_float8(T) && slice >= from + kApart && threadIdx.x % 32 == 0) barrier_arrive(empty + (slice - from - kApart) % STAGES);
  }
#pragma unroll
  for (int t = 0; t < kTimes; ++t) finish_multiplying(sums[t]);
  wait_for_earlier_kernels();
  consumers_meet();
  float* const results = (float*)slices;
  const int warp = (int)threadIdx.x / 32, c = (int)threadIdx.x % 4 * 2;
  const int r = (kTimes > 1 ? team * kTimes * 4 + warp % 4 : warp % (ROWS / 16)) * 16 + (int)threadIdx.x % 32 / 4;
  const auto pair = [&](int t, int i) -> Pack<float, 2>& {
    return *(Pack<float, 2>*)(results + (r + t * 64 + i % 2 * 8) * pitch + i / 2 * 8 + c);
  };
  if (turn == 0) {
#pragma unroll
    for (int t = 0; t < kTimes; ++t)
#pragma unroll
      for (int i = 0; i < COLUMNS / 4; ++i) pair(t, i) = {sums[t][i * 2], sums[t][i * 2 + 1]};
  }
  consumers_meet();
  if (kApart > 1) {
    if (turn == 1) {
#pragma unroll
      for (int i = 0; i < COLUMNS / 4; ++i) {
        const Pack<float, 2> other = pair(0, i);
        pair(0, i) = {other.v[0] + sums[0][i * 2], other.v[1] + sums[0][i * 2 + 1]};
      }
    }
    consumers_meet();
  }
  if (PARTS > 1) parts_meet();
  return results;
}
#endif
)";

std::string_view product_operands(const loops::ProductTypes& types) {
  switch (types.row) {
    case DType::F16: return "F16_F16";
    case DType::BF16: return "BF16_BF16";
    case DType::F8E4M3FN: return types.column == DType::F8E5M2 ? "E4M3_E5M2" : "E4M3_E4M3";
    default: return types.column == DType::F8E5M2 ? "E5M2_E5M2" : "E5M2_E4M3";
  }
}

std::string product_instruction(int64_t columns, const loops::ProductTypes& types) {
  std::string d, outputs;
  for (int64_t i = 0; i < columns / 2; ++i) {
    d += fmt::format("{}%{}", i ? ", " : "", i);
    outputs += fmt::format("{}\"+f\"(d[{}])", i ? ", " : "", i);
  }
  const auto name = [](DType t) {
    switch (t) {
      case DType::F16: return "f16";
      case DType::BF16: return "bf16";
      case DType::F8E4M3FN: return "e4m3";
      default: return "e5m2";
    }
  };
  const std::string_view operands = product_operands(types);
  std::string text = fmt::format(
      "#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && !defined(VESTA_MULTIPLY_{0}_{1})\n#define VESTA_MULTIPLY_{0}_{1}\n"
      "template <> struct Multiply<{0}, {1}> {{\n",
      columns, operands);
  const bool float8 = is_float8(types.row);  // whose operands have one order
  for (const bool first : {true, false})
    text += fmt::format(
        "  static __device__ __forceinline__ void {0}(float (&d)[{1}], u64 a, u64 b) {{\n"
        "    asm volatile(\"wgmma.mma_async.sync.aligned.m64n{3}k{4}.f32.{5}.{6} {{{7}}}, %{1}, %{8}, {2}, 1, 1{9};\"\n"
        "                 : {10} : \"l\"(a), \"l\"(b));\n"
        "  }}\n",
        first ? "first" : "step", columns / 2, first ? 0 : 1, columns, float8 ? 32 : 16, name(types.row),
        name(types.column), d, columns / 2 + 1, float8 ? "" : ", 0, 0", outputs);
  return text + "};\n#endif\n";
}

}  // namespace vesta::codegen
