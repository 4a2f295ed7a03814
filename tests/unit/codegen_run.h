// Runs a kernel text both ways, generated and interpreted, on equal inputs, and compares every buffer.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "codegen/codegen.h"
#include "elements.h"
#include "kernel_reference.h"
#include "machine/load.h"
#include "schedule/vectors.h"

namespace vesta::codegen::testing {

// Floats of a vector.
inline int64_t host_lanes() { return std::max<int64_t>(4, host_target().vector_bytes / 4); }

// As PyTorch and the arena align: vectors that are stored past the caches must lie on their own size.
template <class T>
struct Aligned {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlignment)); }
  void deallocate(T* p, size_t) { ::operator delete(p, kAlignment); }
  bool operator==(const Aligned&) const = default;
};
using Bytes = std::vector<unsigned char, Aligned<unsigned char>>;

struct Array {
  DType dtype = DType::F32;
  Bytes bytes;
  int64_t size() const { return static_cast<int64_t>(bytes.size()) / element_size(dtype); }
  loops::Scalar at(int64_t i) const { return loops::load(dtype, bytes.data() + i * element_size(dtype)); }
  void set(int64_t i, loops::Scalar v) { loops::store(dtype, bytes.data() + i * element_size(dtype), v); }
};

// `pattern` with every key replaced by its value.
inline std::string text(std::string pattern, std::initializer_list<std::pair<const char*, std::string>> values) {
  for (const auto& [key, value] : values) {
    for (size_t at; (at = pattern.find(key)) != std::string::npos;)
      pattern.replace(at, std::string_view(key).size(), value);
  }
  return pattern;
}

inline Array make_array(DType t, int64_t n) { return {t, Bytes(static_cast<size_t>(n * element_size(t)))}; }

// Values that matter: special ones in between random ones.
inline Array random_array(DType t, int64_t n, unsigned seed, bool special = false) {
  Array a = make_array(t, n);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> real(-4, 4);
  const double specials[] = {0.0,    -0.0, 1,     -1,  INFINITY, -INFINITY, NAN,    1e-40,
                             -1e-40, 3e38, -3e38, 0.5, -0.5,     88.7,      -103.5, 1e10};
  for (int64_t i = 0; i < n; ++i) {
    if (is_float(t)) {
      double v = special && random() % 3 == 0 ? specials[random() % 16] : real(random);
      a.set(i, loops::from_double(t, v));
    } else {
      int64_t v = static_cast<int64_t>((uint64_t{random()} << 32) | random());
      int shift = static_cast<int>(random() % 64);
      a.set(i, loops::from_integer(t, t == DType::Bool ? v & 1 : special ? v >> shift : v % 10));
    }
  }
  return a;
}

inline std::string show(DType t, loops::Scalar v) { return is_float(t) ? fmt::format("{}", v.f) : std::to_string(v.i); }

inline double ulp_of(DType t, double v) {
  if (t == DType::F64) return std::nextafter(std::fabs(v), INFINITY) - std::fabs(v);
  float f = static_cast<float>(std::fabs(v));
  double f32 = static_cast<double>(std::nextafter(f, INFINITY)) - f;
  if (is_float8(t)) return std::max(f32 * 0x1p21, 0x1p-9);
  return t == DType::F32 ? f32 : t == DType::BF16 ? f32 * 65536 : std::max(f32 * 8192, 0x1p-24);
}

// Equal NaNs, infinities, integers; floats within `ulps`, or `absolute` where cancellation makes ulps meaningless.
inline bool close(DType t, loops::Scalar a, loops::Scalar b, double ulps, double absolute = 0) {
  if (!is_float(t)) return a.i == b.i;
  if (std::isnan(a.f) || std::isnan(b.f)) return std::isnan(a.f) && std::isnan(b.f);
  if (a.f == b.f) return true;
  if (std::isinf(a.f) || std::isinf(b.f)) return false;
  double error = std::fabs(a.f - b.f);
  return error <= absolute || error <= ulps * ulp_of(t, b.f);
}

// The kernel of this text with the schedule's choice of vectors for a machine, this one unless told otherwise.
inline std::unique_ptr<loops::Kernel> scheduled(const std::string& text,
                                                int64_t vector_bytes = host_target().vector_bytes) {
  auto k = loops::parse_kernel(text);
  schedule::choose_vectors(*k, vector_bytes);
  return k;
}

inline void run_jit(const loops::Kernel& k, std::vector<Array>& arrays, const std::vector<int64_t>& sizes,
                    int64_t split = 0, const Target& target = host_target()) {
  std::vector<Request> requests = {{loops::print(k), "test"}};
  CompileOptions options;
  if (const char* dir = std::getenv("VESTA_TEST_DUMP")) options.dump_dir = dir;
  auto code = machine::load(*compile(requests, target, options)[0].object);
  auto value_of = [&](Expr s) {
    for (size_t i = 0; i < k.sizes.size(); ++i) {
      if (k.sizes[i] == s) return sizes[i];
    }
    return int64_t{0};
  };
  int64_t items = evaluate(loops::work_items(k), value_of);
  int64_t scratch_bytes = evaluate(loops::scratch_bytes(k), value_of);
  std::vector<unsigned char> scratch(static_cast<size_t>(scratch_bytes) + 64);
  void* aligned = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) & ~uintptr_t{63});
  std::vector<void*> pointers;
  for (Array& a : arrays) pointers.push_back(a.bytes.data());
  split = std::min(split, items);
  code->entry()(pointers.data(), sizes.data(), aligned, 0, split);
  code->entry()(pointers.data(), sizes.data(), aligned, split, items);
}

inline void run_interpreter(const loops::Kernel& k, std::vector<Array>& arrays, const std::vector<int64_t>& sizes) {
  auto value_of = [&](Expr s) {
    for (size_t i = 0; i < k.sizes.size(); ++i) {
      if (k.sizes[i] == s) return sizes[i];
    }
    return int64_t{0};
  };
  std::vector<void*> pointers;
  for (Array& a : arrays) pointers.push_back(a.bytes.data());
  loops::interpret(k, pointers, sizes, 0, evaluate(loops::work_items(k), value_of));
}

// Guard elements behind every array catch stores past the end.
inline void expect_same(const loops::Kernel& kernel, std::vector<Array> arrays, const std::vector<int64_t>& sizes,
                        double ulps = 0, double absolute = 0, const Target& target = host_target()) {
  const loops::Kernel* const k = &kernel;
  const std::string text = loops::print(kernel);
  loops::verify(*k);
  std::vector<Array> expected = arrays;
  for (Array& a : arrays) a.bytes.resize(a.bytes.size() + 64, 0x5a);
  run_jit(*k, arrays, sizes, 1, target);
  run_interpreter(*k, expected, sizes);
  for (size_t b = 0; b < arrays.size(); ++b) {
    DType t = arrays[b].dtype;
    int64_t n = expected[b].size(), wrong = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (close(t, arrays[b].at(i), expected[b].at(i), ulps, absolute)) continue;
      if (++wrong <= 3) {
        ADD_FAILURE() << "buffer " << b << "[" << i << "] is " << show(t, arrays[b].at(i)) << ", not "
                      << show(t, expected[b].at(i)) << "\n"
                      << text;
      }
    }
    for (size_t i = expected[b].bytes.size(); i < arrays[b].bytes.size(); ++i) {
      if (arrays[b].bytes[i] != 0x5a) {
        ADD_FAILURE() << "buffer " << b << " was written past its end\n" << text;
        break;
      }
    }
  }
}

inline void expect_same(const std::string& text, std::vector<Array> arrays, const std::vector<int64_t>& sizes,
                        double ulps = 0, double absolute = 0) {
  expect_same(*scheduled(text), std::move(arrays), sizes, ulps, absolute);
}

}  // namespace vesta::codegen::testing
