#include "codegen/cuda/source.h"

namespace vesta::codegen {

// Conversions round to nearest, ties to even, like __float2half_rn and __float2bfloat16_rn. Integers follow
// base/prim.h: they wrap, and shifts by more than their width give the results of ATen.
const char* const kCudaPrelude = R"(
typedef long long i64;
typedef unsigned long long u64;
typedef unsigned short u16;
typedef unsigned char u8;
typedef unsigned int u32;

// Adjacent elements, aligned for accesses of at most 16 bytes.
template <class T, int N> struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Pack { T v[N]; };

// Copies adjacent elements from memory to shared memory, while the thread goes on. copies_arrive() waits for the copies
// of this thread.
template <int BYTES> __device__ __forceinline__ void copy_to_row(void* to, const void* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const u32 at = (u32)__cvta_generic_to_shared(to);
  if constexpr (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" :: "r"(at), "l"(from), "n"(BYTES) : "memory");
  }
#else
  *(Pack<u32, BYTES / 4>*)to = *(const Pack<u32, BYTES / 4>*)from;
#endif
}
__device__ __forceinline__ void copies_arrive() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Halves of a row, two in a register. They must be stored in order.
__device__ __forceinline__ void keep_half(u32* row, int at, u16 h) {
  if (at % 2 == 0) row[at / 2] = h; else row[at / 2] |= (u32)h << 16;
}
__device__ __forceinline__ u16 kept_half(const u32* row, int at) { return (u16)(row[at / 2] >> (at % 2 * 16)); }

template <class T> struct unsigned_of { typedef u32 type; };
template <> struct unsigned_of<i64> { typedef u64 type; };
template <> struct unsigned_of<u64> { typedef u64 type; };

#ifndef VESTA_ON_HOST
extern __shared__ __align__(16) u8 shared_rows[];
__device__ __forceinline__ float from_f16(u16 h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
__device__ __forceinline__ u16 to_f16(float f) { u16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
__device__ __forceinline__ float bits_float(u32 u) { return __uint_as_float(u); }
__device__ __forceinline__ u32 float_bits(float f) { return __float_as_uint(f); }
__device__ __forceinline__ double bits_double(u64 u) { return __longlong_as_double((i64)u); }
__device__ __forceinline__ u64 double_bits(double f) { return (u64)__double_as_longlong(f); }
// Waits for all threads of the blocks that share a tile or a row. Afterwards they see each other's writes to shared
// memory.
__device__ __forceinline__ void parts_meet() {
  __syncwarp();  // the barrier takes whole warps
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// The same in two steps.
__device__ __forceinline__ void parts_arrive() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void parts_wait() {
  __syncwarp();
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
template <int PARTS> __device__ __forceinline__ int own_part() {
  u32 rank = 0;
  if (PARTS > 1) asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return (int)rank;
}
// Writes to this address of the shared memory of a part.
template <class T> __device__ __forceinline__ void tell_part(T* at, int part, T x) {
  T* there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(at), "r"(part));
  *(volatile T*)there = x;
}
// Accurate to 2 ulp. Results below the normal numbers are 0.
__device__ __forceinline__ float exp2_normal(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
#endif

// Lets the next kernel start, which waits here for this one's results, and waits until the writes of the preceding
// kernels are visible (PTX ISA, griddepcontrol).
__device__ __forceinline__ void wait_for_earlier_kernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ float from_bf16(u16 h) { return bits_float((u32)h << 16); }
__device__ __forceinline__ u16 to_bf16(float f) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  u16 h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
#endif
  const u32 u = float_bits(f);
  return f != f ? (u16)0x7fff : (u16)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

// float8 as in loops/float8.h, with M bits of fraction and the exponent's bias: the bits of a magnitude below overflow.
template <int M, int BIAS> __device__ __forceinline__ u32 rounded_f8(u32 u) {
  const u32 power = (u32)(151 - M - BIAS) << 23;
  if (u < (u32)(128 - BIAS) << 23) return float_bits(bits_float(u) + bits_float(power)) - power;
  return (u - ((u32)(127 - BIAS) << 23) + ((1u << (22 - M)) - 1) + (u >> (23 - M) & 1u)) >> (23 - M);
}
template <int M, int BIAS> __device__ __forceinline__ float widened_f8(u8 b) {
  const float f = bits_float((u32)(b & 127) << (23 - M)) * bits_float((u32)(254 - BIAS) << 23);
  return b > 127 ? -f : f;
}
template <int M, int BIAS> __device__ __forceinline__ u8 to_f8_unsigned_zero(float f, u32 overflow) {
  const u32 u = float_bits(f) & 0x7fffffffu;
  const u32 r = u >= overflow ? 128 : rounded_f8<M, BIAS>(u);
  return (u8)(r == 0 ? 0 : r | (float_bits(f) >> 24 & 128));
}
// The processor's conversion saturates and drops the sign of NaN.
__device__ __forceinline__ u8 to_f8e4m3fn(float f) {
  const u32 u = float_bits(f) & 0x7fffffffu, sign = float_bits(f) >> 24 & 128;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  u16 pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(f));
  return u > 0x43e80000u ? (u8)(sign | 0x7f) : (u8)pair;
#else
  return (u8)(sign | (u >= 0x43f00000u ? 0x7f : rounded_f8<3, 7>(u)));
#endif
}
__device__ __forceinline__ float from_f8e4m3fn(u8 b) {
  return (b & 127) == 127 ? bits_float((u32)(b >> 7) << 31 | 0x7fc00000u) : widened_f8<3, 7>(b);
}
__device__ __forceinline__ u8 to_f8e5m2(float f) {
  const u32 u = float_bits(f) & 0x7fffffffu, sign = float_bits(f) >> 24 & 128;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  u16 pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(f));
  return u >= 0x47700000u ? (u8)(sign | (u > 0x7f800000u ? 0x7f : 0x7c)) : (u8)pair;
#else
  return (u8)(sign | (u > 0x7f800000u ? 0x7f : u >= 0x47800000u ? 0x7c : rounded_f8<2, 15>(u)));
#endif
}
__device__ __forceinline__ float from_f8e5m2(u8 b) { return from_f16((u16)(b << 8)); }
__device__ __forceinline__ u8 to_f8e4m3fnuz(float f) { return to_f8_unsigned_zero<3, 8>(f, 0x43800000u); }
__device__ __forceinline__ float from_f8e4m3fnuz(u8 b) { return b == 128 ? bits_float(0x7fc00000u) : widened_f8<3, 8>(b); }
__device__ __forceinline__ u8 to_f8e5m2fnuz(float f) { return to_f8_unsigned_zero<2, 16>(f, 0x47800000u); }
__device__ __forceinline__ float from_f8e5m2fnuz(u8 b) { return b == 128 ? bits_float(0x7fc00000u) : widened_f8<2, 16>(b); }
__device__ __forceinline__ u8 to_f8e8m0fnu(float f) {
  const u32 u = float_bits(f), e = u >> 23 & 255;
  return (u8)(e + (e < 255 && (u & 0x400000u) != 0 && ((u & 0x3fffffu) != 0 || e > 0)));
}
__device__ __forceinline__ float from_f8e8m0fnu(u8 b) {
  return bits_float(b == 255 ? 0x7fc00000u : b == 0 ? 0x00400000u : (u32)b << 23);
}

template <class T> __device__ __forceinline__ T v_max(T a, T b) { return a != a ? a : a > b ? a : b; }
template <class T> __device__ __forceinline__ T v_min(T a, T b) { return a != a ? a : a < b ? a : b; }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <> __device__ __forceinline__ float v_max(float a, float b) { float c; asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c; }
template <> __device__ __forceinline__ float v_min(float a, float b) { float c; asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c; }
#endif
template <class T> __device__ __forceinline__ T v_fmax(T a, T b) { return b != b ? a : a > b ? a : b; }
template <class T> __device__ __forceinline__ T v_fmin(T a, T b) { return b != b ? a : a < b ? a : b; }
template <class T> __device__ __forceinline__ T int_div(T a, T b) {
  typedef typename unsigned_of<T>::type U;
  return (T)-1 < 0 && b == (T)-1 ? (T)(0 - (U)a) : (T)(a / b);
}
template <class T> __device__ __forceinline__ T int_rem(T a, T b) { return (T)-1 < 0 && b == (T)-1 ? 0 : (T)(a % b); }
template <class T> __device__ __forceinline__ T floor_div(T a, T b) {
  const T q = int_div(a, b);
  return int_rem(a, b) != 0 && ((a < 0) != (b < 0)) ? q - 1 : q;
}
template <class T> __device__ __forceinline__ T floor_mod(T a, T b) {
  const T m = int_rem(a, b);
  return m != 0 && ((m < 0) != (b < 0)) ? m + b : m;
}
template <class T> __device__ __forceinline__ T float_mod(T a, T b, T m) {
  return m != 0 && ((b < 0) != (m < 0)) ? m + b : m;
}
template <class T> __device__ __forceinline__ T shift_left(T a, T b) {
  typedef typename unsigned_of<T>::type U;
  return b < 0 || b >= (T)(8 * sizeof(T)) ? (T)0 : (T)((U)a << b);
}
template <class T> __device__ __forceinline__ T shift_right(T a, T b) {
  return b < 0 || b >= (T)(8 * sizeof(T)) ? (T)(a < 0 ? -1 : 0) : (T)(a >> b);
}
template <class T> __device__ __forceinline__ T power(T base, T exponent) {
  typedef typename unsigned_of<T>::type U;
  if (exponent < 0) return base == 1 ? 1 : base == (T)-1 ? (exponent % 2 == 0 ? 1 : (T)-1) : 0;
  U r = 1, b = (U)base;
  for (u64 e = (u64)exponent; e != 0; e >>= 1) {
    if (e & 1) r *= b;
    b *= b;
  }
  return (T)r;
}
__device__ inline double v_digamma(double x) {
  const double infinity = bits_double(0x7ff0000000000000ull);
  if (x == 0) return x == 0 && (double_bits(x) >> 63) ? infinity : -infinity;
  double r = 0;
  if (x < 0) {
    if (x == trunc(x)) return infinity - infinity;
    r = -3.14159265358979323846 / tan(3.14159265358979323846 * (x - trunc(x)));
    x = 1 - x;
  }
  while (x < 10) { r -= 1 / x; x += 1; }
  if (x == 10) return r + 2.25175258906672110764;
  double y = 0;
  if (x < 1e17) {
    const double z = 1 / (x * x);
    y = 8.33333333333333333333E-2;
    y = y * z - 2.10927960927960927961E-2;
    y = y * z + 7.57575757575757575758E-3;
    y = y * z - 4.16666666666666666667E-3;
    y = y * z + 3.96825396825396825397E-3;
    y = y * z - 8.33333333333333333333E-3;
    y = y * z + 8.33333333333333333333E-2;
    y = y * z;
  }
  return r + log(x) - 0.5 / x - y;
}

// 1 + erf(y), to within 2e-7, as exact as the sum of 1 and CUDA's erff: erfc(|y|) is 2 to the power of a polynomial,
// which was fitted for the least error of the result.
__device__ __forceinline__ float one_plus_erf(float y) {
  const float t = fabsf(y);
  float p = bits_float(0xb8247c3bu);
  p = fmaf(p, t, bits_float(0x39d239e1u));
  p = fmaf(p, t, bits_float(0xbab2aa6du));
  p = fmaf(p, t, bits_float(0xba79fc21u));
  p = fmaf(p, t, bits_float(0x3ce88d29u));
  p = fmaf(p, t, bits_float(0xbe181907u));
  p = fmaf(p, t, bits_float(0xbf6b1cc1u));
  p = fmaf(p, t, bits_float(0xbfd05f53u));
  const float other = exp2_normal(p * t);
  return y < 0 ? other : 2.0f - other;
}
// exp(d) for d <= 0, as a term of a sum that has the term exp(0). Rounding the product with log2(e) changes the term by
// less than 1.4 ulp of the largest one (docs/numerics.md). Results below the normal numbers are 0.
__device__ __forceinline__ float relative_exp(float d) { return exp2_normal(d * bits_float(0x3fb8aa3bu)); }
__device__ __forceinline__ double relative_exp(double d) { return exp(d); }
// The value that is subtracted from all terms, for their maximum m. It is finite unless m is infinity or NaN.
__device__ __forceinline__ float reference(float m) { return fmaxf(m, bits_float(0xff7fffffu)); }
__device__ __forceinline__ double reference(double m) { return fmax(m, bits_double(0xffefffffffffffffull)); }
// Adds N elements to the sum s of exp(x - m), where m is the maximum of all x so far. An infinite m makes s NaN: see
// sum_of.
template <int N, class T> __device__ __forceinline__ void add_relative(T& m, T& s, const T (&x)[N]) {
  T most[2] = {m, x[0]}, sum[2] = {0, 0};
#pragma unroll
  for (int n = 1; n < N; ++n) most[n % 2 ^ 1] = v_max<T>(most[n % 2 ^ 1], x[n]);
  most[0] = v_max<T>(most[0], most[1]);
  const T r = reference(most[0]);
#pragma unroll
  for (int n = 0; n < N; ++n) sum[n % 2] += relative_exp(x[n] - r);
  s = s * relative_exp(m - r) + (N > 1 ? sum[0] + sum[1] : sum[0]);
  m = most[0];
}
template <class T> __device__ __forceinline__ void add_sums(T& m, T& s, T other_m, T other_s) {
  const T all = v_max<T>(m, other_m), r = reference(all);
  s = s * relative_exp(m - r) + other_s * relative_exp(other_m - r);
  m = all;
}
// The sum. For a row with an infinite maximum it is NaN, because infinity - infinity is.
template <class T> __device__ __forceinline__ T sum_of(T m, T s) { return m - m == 0 ? s : m - m; }
// The sum of exp(x). For a row with an infinite maximum m it is exp(m): 0, infinity or NaN.
template <class T> __device__ __forceinline__ T sum_of_finite(T m, T s) { return m - m == 0 ? s : m < 0 ? 0 : m; }

// About a / b.
template <class T> __device__ __forceinline__ T about(T a, T b) { return a / b; }
#ifndef VESTA_ON_HOST
template <> __device__ __forceinline__ float about(float a, float b) { return __fdividef(a, b); }
#endif
// Adds N elements to their sum, to the sum of squares of their differences from their mean, to their count and mean.
template <int N, class T> __device__ __forceinline__ void add_moments(T& sum, T& squares, T& count, T& mean, const T (&x)[N]) {
  T here = x[0], own = 0;
#pragma unroll
  for (int n = 1; n < N; ++n) here += x[n];
  const T middle = here / N;
#pragma unroll
  for (int n = 0; n < N; ++n) own += (x[n] - middle) * (x[n] - middle);
  const T all = count + N, share = about<T>(N, all), d = middle - mean;
  sum += here;
  squares += own + count * share * d * d;
  mean += d * share;
  count = all;
}
// Adds one element to the sum. Adds its difference from the first element (the origin) to the sum of differences, and
// the square of that difference to the sum of squares. The origin is one of the n elements, so it contributes to their
// variance. Therefore center_moments loses at most a factor of n in precision.
template <class T> __device__ __forceinline__ void add_moment(T& sum, T& differences, T& squares, T& origin, bool first, T x) {
  if (first) origin = x;
  const T d = x - origin;
  sum += x;
  differences += d;
  squares += d * d;
}
// Makes the squares relative to the mean, which replaces the origin. `share` is 1 / count. An infinite element makes
// the squares NaN.
template <class T> __device__ __forceinline__ void center_moments(T sum, T differences, T& squares, T count, T share, T& origin) {
  if (count == 0) return;
  const T d = differences * share, rest = squares - differences * d;
  squares = squares - squares == 0 ? (rest < 0 ? 0 : rest) : squares + (sum - sum);
  origin += d;
}
// Combines the moments of two parts of a column. `share` is the other part's count divided by both counts together, and
// `both` is `share` times the count of this part.
template <class T> __device__ __forceinline__ void meet_columns(T& sum, T& squares, T& mean, T share, T both, T other_sum, T other_squares, T other_mean) {
  const T d = other_mean - mean;
  sum += other_sum;
  squares += other_squares + d * both * d;
  mean += d * share;
}
template <class T> __device__ __forceinline__ void meet_moments(T& sum, T& squares, T& count, T& mean, T other_sum, T other_squares, T other_count, T other_mean) {
  sum += other_sum;
  const T all = count + other_count;
  if (all == 0) return;
  const T share = about<T>(1, all), here = count * share, there = other_count * share;
  const T d = count == 0 || other_count == 0 ? 0 : other_mean - mean;
  squares = (squares + other_squares) + d * d * (here * there * all);
  mean = (count == 0 ? 0 : mean * here) + (other_count == 0 ? 0 : other_mean * there);
  count = all;
}

// Whether x is the better of two candidates for a position: NaN beats all, the first wins among equals.
template <class T> __device__ __forceinline__ bool beats(T x, i64 at, T best, i64 best_at, bool larger) {
  const bool x_nan = x != x, best_nan = best != best;
  if (x_nan != best_nan) return x_nan;
  if (!x_nan && x != best) return larger ? x > best : x < best;
  return at < best_at;
}

#ifndef VESTA_ON_HOST
// Adds atomically. The order of additions is unspecified.
template <class T> __device__ __forceinline__ void add_to(T* at, T x) { atomicAdd(at, x); }
template <> __device__ __forceinline__ void add_to(i64* at, i64 x) { atomicAdd((u64*)at, (u64)x); }
// The value of the lane `distance` before this one, or the lane's own if there is none, and the value of the last of each
// `lanes` adjacent lanes.
template <class T> __device__ __forceinline__ T from_lane_below(T x, int distance) { return (T)__shfl_up_sync(0xffffffffu, x, distance); }
template <class T> __device__ __forceinline__ T from_last_lane(T x, int lanes) { return (T)__shfl_sync(0xffffffffu, x, lanes - 1, lanes); }
template <class T> __device__ __forceinline__ T from_lane(T x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
template <> __device__ __forceinline__ bool from_lane(bool x, int mask) { return __shfl_xor_sync(0xffffffffu, (int)x, mask) != 0; }
template <> __device__ __forceinline__ u8 from_lane(u8 x, int mask) { return (u8)__shfl_xor_sync(0xffffffffu, (int)x, mask); }
template <> __device__ __forceinline__ signed char from_lane(signed char x, int mask) { return (signed char)__shfl_xor_sync(0xffffffffu, (int)x, mask); }
template <> __device__ __forceinline__ short from_lane(short x, int mask) { return (short)__shfl_xor_sync(0xffffffffu, (int)x, mask); }
template <> __device__ __forceinline__ u16 from_lane(u16 x, int mask) { return (u16)__shfl_xor_sync(0xffffffffu, (int)x, mask); }
#endif
// Adds adjacent elements.
template <int N> __device__ __forceinline__ void add_all(float* at, const Pack<float, N>& x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if constexpr (N == 2) {
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" :: "l"(at), "f"(x.v[0]), "f"(x.v[1]) : "memory");
  } else {
#pragma unroll
    for (int n = 0; n < N; n += 4)
      asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
                   :: "l"(at + n), "f"(x.v[n]), "f"(x.v[n + 1]), "f"(x.v[n + 2]), "f"(x.v[n + 3]) : "memory");
  }
#else
  for (int n = 0; n < N; ++n) add_to(at + n, x.v[n]);
#endif
}
)";

}  // namespace vesta::codegen
