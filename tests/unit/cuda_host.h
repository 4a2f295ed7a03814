// Runs the CUDA C++ of kernels on the CPU: every thread of a block is a fiber, which waits where threads exchange
// values or meet. The text itself is compiled, by the compiler that built the tests.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "codegen/cuda/source.h"
#include "vesta/error.h"

namespace vesta::testing {

// The threads of a block, or of neighbouring blocks that meet, in turns. `meet` returns when every thread of the group
// has come there.
class Fibers {
 public:
  template <class F>
  void run(unsigned of_block, unsigned blocks, F&& body) {
    body_ = [&] { body(); };
    of_block_ = of_block;
    const unsigned threads = of_block * blocks;
    threads_.resize(threads);
    for (unsigned t = 0; t < threads; ++t) {
      Thread& x = threads_[t];
      if (x.stack.empty()) x.stack.resize(kStackBytes);
      x.done = false;
      for (uint64_t& n : x.arrived) n = 0;
      getcontext(&x.context);
      x.context.uc_stack.ss_sp = x.stack.data();
      x.context.uc_stack.ss_size = x.stack.size();
      x.context.uc_link = &scheduler_;
      makecontext(&x.context, &Fibers::enter, 0);
    }
    current_ = this;
    for (bool all_done = false; !all_done;) {
      all_done = true;
      for (unsigned t = 0; t < threads; ++t) {
        if (threads_[t].done) continue;
        all_done = false;
        now_ = t;
        swapcontext(&scheduler_, &threads_[t].context);
      }
    }
  }

  unsigned thread() const { return now_ % of_block_; }
  unsigned block() const { return now_ / of_block_; }
  unsigned first_of_block() const { return now_ / of_block_ * of_block_; }
  unsigned threads() const { return static_cast<unsigned>(threads_.size()); }
  void yield() { swapcontext(&threads_[now_].context, &scheduler_); }
  // All threads from `first` on, `count` of them, meet. Each kind of group counts its own meetings, because some warps
  // exchange values more often than others.
  enum Kind { kWarp, kBlock, kBlocks };
  void meet(Kind kind, unsigned first, unsigned count) {
    const uint64_t turn = ++threads_[now_].arrived[kind];
    for (;;) {
      bool all = true;
      for (unsigned t = first; t < first + count && t < threads_.size(); ++t)
        all &= threads_[t].arrived[kind] >= turn || threads_[t].done;
      if (all) return;
      yield();
    }
  }
  // The value that another thread of the warp gives.
  void exchange(void* value, size_t bytes, unsigned other) {
    Thread& mine = threads_[now_];
    std::memcpy(mine.value, value, bytes);
    const unsigned warp = now_ / 32 * 32;
    meet(kWarp, warp, 32);
    std::memcpy(value, threads_[warp + other % 32].value, bytes);
    meet(kWarp, warp, 32);
  }

  static Fibers* current() { return current_; }

 private:
  static constexpr size_t kStackBytes = 64 << 10;
  struct Thread {
    ucontext_t context;
    std::vector<char> stack;
    bool done = false;
    uint64_t arrived[3] = {};
    char value[16];
  };
  static void enter() {
    Fibers* const f = current_;
    f->body_();
    f->threads_[f->now_].done = true;
  }
  static inline Fibers* current_ = nullptr;
  std::function<void()> body_;
  std::vector<Thread> threads_;
  ucontext_t scheduler_;
  unsigned now_ = 0, of_block_ = 1;
};

// The functions that a compiled text calls.
struct HostCalls {
  unsigned (*thread)() = [] { return Fibers::current()->thread(); };
  unsigned (*rank)() = [] { return Fibers::current()->block(); };  // among the blocks that run together
  unsigned block = 0;                                              // the first of them
  bool failed = false;
  void (*sync)(unsigned threads) = [](unsigned threads) {
    Fibers& f = *Fibers::current();
    f.meet(Fibers::kBlock, f.first_of_block(), threads);
  };
  void (*sync_blocks)() = [] { Fibers::current()->meet(Fibers::kBlocks, 0, Fibers::current()->threads()); };
  void (*yield)() = [] { Fibers::current()->yield(); };
  void (*exchange)(void*, size_t, unsigned) = [](void* v, size_t n, unsigned other) {
    Fibers::current()->exchange(v, n, other);
  };
};

// Goes before the prelude (source.h).
inline const char* const kHostPrelude = R"(
#include <cmath>
#include <cstring>
#include <cstddef>
#define VESTA_ON_HOST
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
struct HostCalls {
  unsigned (*thread)();
  unsigned (*rank)();
  unsigned block;
  bool failed;
  void (*sync)(unsigned);
  void (*sync_blocks)();
  void (*yield)();
  void (*exchange)(void*, size_t, unsigned);
};
extern "C" { HostCalls* vesta_host; unsigned vesta_threads; }
struct HostThread { operator unsigned() const { return vesta_host->thread(); } };
struct HostBlock { operator unsigned() const { return vesta_host->block + vesta_host->rank(); } };
static struct { HostThread x; } threadIdx;
static struct { HostBlock x; } blockIdx;
alignas(16) static unsigned char shared_memory[16][256 << 10];
#define shared_rows shared_memory[vesta_host->rank()]
static inline void __syncthreads() { vesta_host->sync(vesta_threads); }
static inline void __syncwarp() {}
static inline void __assertfail(const char*, const char*, unsigned, const char*, size_t) { vesta_host->failed = true; }
template <class T> static inline void add_to(T* at, T x) { *at += x; }
template <class T, class F> static inline T same_bits(F f) { T t; std::memcpy(&t, &f, sizeof t); return t; }
static inline float bits_float(unsigned u) { return same_bits<float>(u); }
static inline unsigned float_bits(float f) { return same_bits<unsigned>(f); }
static inline double bits_double(unsigned long long u) { return same_bits<double>(u); }
static inline unsigned long long double_bits(double f) { return same_bits<unsigned long long>(f); }
static inline float from_f16(unsigned short h) { return (float)same_bits<_Float16>(h); }
static inline unsigned short to_f16(float f) { return same_bits<unsigned short>((_Float16)f); }
static inline float exp2_normal(float x) { const float y = std::exp2(x); return y < 0x1p-126f ? 0 : y; }
static inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
static inline double rsqrt(double x) { return 1 / std::sqrt(x); }
static inline double erfinv(double y) {
  if (!(y > -1 && y < 1)) return y == 1 ? INFINITY : y == -1 ? -INFINITY : NAN;
  double x = 0;
  const double a = 0.147, l = std::log(1 - y * y), b = 2 / (M_PI * a) + l / 2;
  x = std::copysign(std::sqrt(std::sqrt(b * b - l / a) - b), y);
  for (int i = 0; i < 4; ++i) x -= (y > 0 ? -(std::erfc(x) - (1 - y)) : std::erfc(-x) - (1 + y)) / (2 / std::sqrt(M_PI) * std::exp(-x * x));
  return x;
}
static inline float erfinvf(float y) { return (float)erfinv((double)y); }
template <class T> static inline T from_thread(T x, unsigned thread) { vesta_host->exchange(&x, sizeof x, thread); return x; }
template <class T> static inline T from_lane(T x, int mask) { return from_thread(x, threadIdx.x ^ mask); }
template <class T> static inline T from_lane_below(T x, int distance) {
  return from_thread(x, threadIdx.x % 32 < distance ? threadIdx.x : threadIdx.x - distance);
}
template <class T> static inline T from_last_lane(T x, int lanes) {
  return from_thread(x, threadIdx.x / lanes * lanes + lanes - 1);
}

// Of products on tensor cores. A barrier has its count, what is missing of it, and the phases that have ended.
struct HostBarrier { unsigned short count, missing; unsigned phases; };
static inline void barrier_init(unsigned long long* b, int count) { *(HostBarrier*)b = {(unsigned short)count, (unsigned short)count, 0}; }
static inline void barrier_arrive(unsigned long long* p) {
  auto* b = (HostBarrier*)p;
  if (--b->missing == 0) b->missing = b->count, ++b->phases;
}
static inline void barrier_arrive_after_copies(unsigned long long* b) { barrier_arrive(b); }
static inline void barrier_wait(unsigned long long* b, int parity) { while ((int)(((HostBarrier*)b)->phases % 2) == parity) vesta_host->yield(); }
typedef unsigned char* Place;
static inline Place place_of(unsigned char* p) { return p; }
template <bool AGAIN> static inline void copy_piece(Place to, const unsigned char* from, bool on, unsigned long long) {
  if (on) std::memcpy(to, from, 16); else std::memset(to, 0, 16);
}
template <bool AGAIN> static inline unsigned long long cache_policy() { return 0; }
static inline void consumers_meet() { vesta_host->sync(256); }
static inline void parts_meet() { vesta_host->sync_blocks(); }
static inline void parts_arrive() {}
static inline void parts_wait() { vesta_host->sync_blocks(); }
template <class T> static inline void tell_part(T* at, int part, T x) {
  *(T*)(shared_memory[part] + ((unsigned char*)at - shared_rows)) = x;
}
template <int PARTS> static inline int own_part() { return PARTS > 1 ? vesta_host->rank() : 0; }
template <int PARTS, int N> static inline void take_sums(float (&x)[N], const float* at) {
  for (int n = 0; n < N; ++n) {
    x[n] = 0;
    for (int p = 0; p < PARTS; ++p) x[n] += ((const float*)shared_memory[p])[at + n - (const float*)shared_rows];
  }
}
static inline void give_registers() {}
static inline void take_registers() {}
)";

class HostKernels {
 public:
  // A text for each kernel, compiled together.
  explicit HostKernels(const std::vector<const loops::Kernel*>& kernels) {
    char folder[] = "/tmp/vesta-cuda-host-XXXXXX";
    VESTA_USER_CHECK(mkdtemp(folder), "no folder for the compiler");
    const std::string base = folder;
    {
      std::ofstream out(base + "/k.cpp");
      out << kHostPrelude << codegen::kCudaPrelude;
      for (size_t i = 0; i < kernels.size(); ++i) {
        out << codegen::cuda_source(*kernels[i], fmt::format("k{}", i));
        // Its parameters from an array of pointers to them.
        const loops::Kernel& k = *kernels[i];
        out << fmt::format("extern \"C\" void call_k{}(void** a) {{ k{}(", i, i);
        for (size_t b = 0; b < k.buffers.size(); ++b)
          out << (k.buffers[b].value ? fmt::format("*(decltype(arg<{}>(k{}))*)a[{}], ", b, i, b)
                                     : fmt::format("(decltype(arg<{}>(k{}))) *(void**)a[{}], ", b, i, b));
        for (size_t s = 0; s <= k.sizes.size(); ++s)
          out << fmt::format("{}*(i64*)a[{}]", s ? ", " : "", k.buffers.size() + s);
        out << "); }\n";
      }
    }
    // decltype of a parameter.
    std::string text;
    {
      std::ifstream in(base + "/k.cpp");
      text.assign(std::istreambuf_iterator<char>(in), {});
    }
    const std::string helper =
        "#include <tuple>\ntemplate <int N, class R, class... A> std::tuple_element_t<N, std::tuple<A...>> arg(R "
        "(*)(A...));\n";
    std::ofstream(base + "/k.cpp") << helper << text;
    const std::string command =
        fmt::format("c++ -std=c++17 -O1 -w -ffp-contract=off -shared -fPIC -o {0}/k.so {0}/k.cpp", base);
    VESTA_USER_CHECK(std::system(command.c_str()) == 0, "the compiler does not take the kernels in {}", base);
    library_ = dlopen((base + "/k.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    VESTA_USER_CHECK(library_, "{}", dlerror());
    std::filesystem::remove_all(base);
    *static_cast<HostCalls**>(dlsym(library_, "vesta_host")) = &calls_;
  }
  ~HostKernels() { dlclose(library_); }
  HostKernels(const HostKernels&) = delete;

  // False: an assertion failed.
  bool run(size_t which, const loops::Kernel& k, std::vector<void*> buffers, std::vector<int64_t> sizes,
           int64_t items) {  // loops::launched_items
    std::vector<void*> arguments;
    for (size_t b = 0; b < buffers.size(); ++b)
      arguments.push_back(k.buffers[b].value ? buffers[b] : static_cast<void*>(&buffers[b]));
    for (int64_t& s : sizes) arguments.push_back(&s);
    arguments.push_back(&items);
    const auto call = reinterpret_cast<void (*)(void**)>(dlsym(library_, fmt::format("call_k{}", which).c_str()));
    *static_cast<unsigned*>(dlsym(library_, "vesta_threads")) = static_cast<unsigned>(k.threads.block);
    calls_.failed = false;
    const int64_t per_block = loops::items_of_block(k);
    const int64_t together = std::max(k.product.parts, k.threads.parts);
    for (int64_t block = 0; block < (items + per_block - 1) / per_block; block += together) {
      calls_.block = static_cast<unsigned>(block);
      fibers_.run(static_cast<unsigned>(k.threads.block), static_cast<unsigned>(together),
                  [&] { call(arguments.data()); });
    }
    return !calls_.failed;
  }

 private:
  void* library_ = nullptr;
  HostCalls calls_;
  Fibers fibers_;
};

}  // namespace vesta::testing
