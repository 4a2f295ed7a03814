// The peak of one core in float32 operations a second: chains of multiply-adds in registers, on the widest vectors that
// the CPU has. A multiply-add is two operations. Prints one line of JSON.
#include <algorithm>
#include <cstdio>
#include <ctime>

namespace {

// The time that this thread has run for, so that other programs of the machine do not count.
double seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

constexpr int kRounds = 9, kSteps = 400'000;
// Enough chains to hide the latency of a multiply-add (four cycles, two of them begin in each), and few enough for the
// 16 registers of AVX2.
constexpr int kChains = 12;

using Four [[gnu::vector_size(16)]] = float;
using Eight [[gnu::vector_size(32)]] = float;
using Sixteen [[gnu::vector_size(64)]] = float;

// Inlined into a function for a kind of CPU, where the compiler makes multiply-adds of the expressions. `numbers` are
// not known to the compiler, and sums are written to it, so that no step can be left out.
template <class Vector>
[[gnu::always_inline]] inline double operations_per_second(volatile float* numbers) {
  constexpr int kLanes = sizeof(Vector) / sizeof(float);
  double most = 0;
  for (int round = 0; round < kRounds; ++round) {
    // The numbers are read and written between the readings of the clock, in this order: all are visible effects.
    const double begin = seconds();
    const Vector factor = Vector{} + numbers[0], addend = Vector{} + numbers[1];
    Vector chains[kChains];
    for (int i = 0; i < kChains; ++i) chains[i] = factor * static_cast<float>(i);
    for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
      for (int i = 0; i < kChains; ++i) chains[i] = chains[i] * factor + addend;
    }
    Vector sum = addend;
    for (int i = 0; i < kChains; ++i) sum += chains[i];
    for (int i = 0; i < kLanes; ++i) numbers[2] = sum[i];
    most = std::max(most, 2.0 * kSteps * kChains * kLanes / (seconds() - begin));
  }
  return most;
}

#ifdef __x86_64__
[[gnu::target("avx512f")]] double with_avx512(volatile float* numbers) {
  return operations_per_second<Sixteen>(numbers);
}
[[gnu::target("avx2,fma")]] double with_avx2(volatile float* numbers) { return operations_per_second<Eight>(numbers); }
#endif

double peak(volatile float* numbers) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) return with_avx512(numbers);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return with_avx2(numbers);
#endif
  return operations_per_second<Four>(numbers);
}

}  // namespace

int main() {
  volatile float numbers[3] = {0.5F, 1.0F, 0.0F};
  std::printf("{\"operations_per_s\": %.0f}\n", peak(numbers));
  return 0;
}
