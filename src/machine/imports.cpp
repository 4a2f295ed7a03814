#include "machine/imports.h"

#include <dlfcn.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "loops/scalar.h"

namespace vesta::machine {

namespace {

double lgamma_of(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

// F32 is computed in double: these functions are rare, and the result is correctly rounded except for ties.
template <class T, double (*f)(double)>
void unary(const T* a, const T*, T* out, int32_t n) {
  for (int32_t i = 0; i < n; ++i) out[i] = static_cast<T>(f(static_cast<double>(a[i])));
}

template <class T, T (*f)(T, T)>
void binary(const T* a, const T* b, T* out, int32_t n) {
  for (int32_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
}

template <class T>
T float_mod(T a, T b) {
  T m = std::fmod(a, b);
  return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}

double rsqrt_of(double x) { return 1 / std::sqrt(x); }
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

template <class T, DType t>
void integer_power(const T* a, const T* b, T* out, int32_t n) {
  for (int32_t i = 0; i < n; ++i) {
    loops::store(t, out + i, loops::compute(Prim::Pow, t, loops::load(t, a + i), loops::load(t, b + i), {}));
  }
}

template <double (*f)(double, double)>
float in_double(float a, float b) {
  return static_cast<float>(f(static_cast<double>(a), static_cast<double>(b)));
}

struct LaneRow {
  Prim prim;
  DType dtype;
  void* address;
};

template <class F>
void* address_of(F* f) {
  return reinterpret_cast<void*>(f);
}

const std::vector<LaneRow>& lane_rows() {
  static const std::vector<LaneRow>* rows = [] {
    auto* r = new std::vector<LaneRow>;
#define VESTA_UNARY(P, F)                                            \
  r->push_back({Prim::P, DType::F32, address_of(&unary<float, F>)}); \
  r->push_back({Prim::P, DType::F64, address_of(&unary<double, F>)});
    VESTA_UNARY(Rsqrt, rsqrt_of)
    VESTA_UNARY(Exp, std::exp)
    VESTA_UNARY(Exp2, std::exp2)
    VESTA_UNARY(Expm1, std::expm1)
    VESTA_UNARY(Log, std::log)
    VESTA_UNARY(Log2, std::log2)
    VESTA_UNARY(Log10, std::log10)
    VESTA_UNARY(Log1p, std::log1p)
    VESTA_UNARY(Sin, std::sin)
    VESTA_UNARY(Cos, std::cos)
    VESTA_UNARY(Tan, std::tan)
    VESTA_UNARY(Asin, std::asin)
    VESTA_UNARY(Acos, std::acos)
    VESTA_UNARY(Atan, std::atan)
    VESTA_UNARY(Sinh, std::sinh)
    VESTA_UNARY(Cosh, std::cosh)
    VESTA_UNARY(Tanh, std::tanh)
    VESTA_UNARY(Asinh, std::asinh)
    VESTA_UNARY(Acosh, std::acosh)
    VESTA_UNARY(Atanh, std::atanh)
    VESTA_UNARY(Erf, std::erf)
    VESTA_UNARY(Erfc, std::erfc)
    VESTA_UNARY(Erfinv, loops::erfinv)
    VESTA_UNARY(Lgamma, lgamma_of)
    VESTA_UNARY(Digamma, loops::digamma)
    VESTA_UNARY(Sigmoid, sigmoid_of)
#undef VESTA_UNARY
#define VESTA_BINARY(P, F, D)                                         \
  r->push_back({Prim::P, DType::F32, address_of(&binary<float, F>)}); \
  r->push_back({Prim::P, DType::F64, address_of(&binary<double, D>)});
    VESTA_BINARY(Pow, in_double<std::pow>, std::pow)
    VESTA_BINARY(Atan2, in_double<std::atan2>, std::atan2)
    VESTA_BINARY(Hypot, in_double<std::hypot>, std::hypot)
    VESTA_BINARY(NextAfter, std::nextafter, std::nextafter)
    VESTA_BINARY(Rem, std::fmod, std::fmod)
    VESTA_BINARY(Mod, float_mod<float>, float_mod<double>)
#undef VESTA_BINARY
    r->push_back({Prim::Pow, DType::U8, address_of(&integer_power<uint8_t, DType::U8>)});
    r->push_back({Prim::Pow, DType::I8, address_of(&integer_power<int8_t, DType::I8>)});
    r->push_back({Prim::Pow, DType::I16, address_of(&integer_power<int16_t, DType::I16>)});
    r->push_back({Prim::Pow, DType::I32, address_of(&integer_power<int32_t, DType::I32>)});
    r->push_back({Prim::Pow, DType::I64, address_of(&integer_power<int64_t, DType::I64>)});
    r->push_back({Prim::Pow, DType::U16, address_of(&integer_power<uint16_t, DType::U16>)});
    r->push_back({Prim::Pow, DType::U32, address_of(&integer_power<uint32_t, DType::U32>)});
    r->push_back({Prim::Pow, DType::U64, address_of(&integer_power<uint64_t, DType::U64>)});
    return r;
  }();
  return *rows;
}

// The functions in glibc's vector library, which have the primitives' names. One that this machine's glibc lacks is not
// found.
constexpr Prim kVectorFunctions[] = {
    Prim::Exp,   Prim::Exp2,  Prim::Expm1, Prim::Log,  Prim::Log2, Prim::Log10, Prim::Log1p, Prim::Sin,
    Prim::Cos,   Prim::Tan,   Prim::Asin,  Prim::Acos, Prim::Atan, Prim::Sinh,  Prim::Cosh,  Prim::Tanh,
    Prim::Asinh, Prim::Acosh, Prim::Atanh, Prim::Erf,  Prim::Erfc, Prim::Pow,   Prim::Atan2, Prim::Hypot,
};

std::string mangled(Prim p, DType t, int lanes) {
  const bool known = std::ranges::find(kVectorFunctions, p) != std::end(kVectorFunctions);
  int64_t bytes = lanes * element_size(t);
#if defined(__x86_64__)
  const char* isa = bytes == 64 ? "e" : bytes == 32 ? "d" : bytes == 16 ? "b" : nullptr;
#elif defined(__aarch64__)
  const char* isa = bytes == 16 ? "n" : nullptr;
#else
  const char* isa = nullptr;
#endif
  if (!known || !isa || (t != DType::F32 && t != DType::F64)) return {};
  return fmt::format("_ZGV{}N{}{}_{}{}", isa, lanes, arity(p) == 2 ? "vv" : "v", name(p), t == DType::F32 ? "f" : "");
}

struct Runtime {
  std::unordered_map<std::string, void*> functions;
  std::unordered_set<std::string> vector_functions;

  Runtime() {
    for (const LaneRow& row : lane_rows()) functions[lane_function(row.prim, row.dtype)] = row.address;
    // Functions that a code generator may call on its own.
    functions["memset"] = address_of(&std::memset);
    functions["memcpy"] = address_of(&std::memcpy);
    functions["memmove"] = address_of(&std::memmove);
    functions["fma"] = address_of(static_cast<double (*)(double, double, double)>(&std::fma));
    functions["fmaf"] = address_of(static_cast<float (*)(float, float, float)>(&std::fma));
    functions["floor"] = address_of(static_cast<double (*)(double)>(&std::floor));
    functions["floorf"] = address_of(static_cast<float (*)(float)>(&std::floor));
    functions["ceil"] = address_of(static_cast<double (*)(double)>(&std::ceil));
    functions["ceilf"] = address_of(static_cast<float (*)(float)>(&std::ceil));
    functions["trunc"] = address_of(static_cast<double (*)(double)>(&std::trunc));
    functions["truncf"] = address_of(static_cast<float (*)(float)>(&std::trunc));
    functions["rint"] = address_of(static_cast<double (*)(double)>(&std::rint));
    functions["rintf"] = address_of(static_cast<float (*)(float)>(&std::rint));
    // Never closed, because generated code keeps pointers into it.
    void* library = dlopen("libmvec.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    for (int p = 0; p < kPrimCount; ++p) {
      for (DType t : {DType::F32, DType::F64}) {
        for (int lanes : {2, 4, 8, 16}) {
          std::string name = mangled(static_cast<Prim>(p), t, lanes);
          void* address = name.empty() ? nullptr : dlsym(library, name.c_str());
          if (!address) continue;
          vector_functions.insert(name);
          functions[name] = address;
        }
      }
    }
  }
};

const Runtime& runtime() {
  static const Runtime* r = new Runtime;
  return *r;
}

}  // namespace

void* import_address(std::string_view name) {
  const auto& functions = runtime().functions;
  const auto found = functions.find(std::string(name));
  return found == functions.end() ? nullptr : found->second;
}

std::string vector_function(Prim p, DType t, int lanes) {
  std::string name = mangled(p, t, lanes);
  return runtime().vector_functions.contains(name) ? name : std::string();
}

std::string vector_functions() {
  std::vector<std::string> names(runtime().vector_functions.begin(), runtime().vector_functions.end());
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, " "));
}

std::string lane_function(Prim p, DType t) {
  for (const LaneRow& row : lane_rows()) {
    if (row.prim == p && row.dtype == t) return fmt::format("vesta_{}_{}", name(p), name(t));
  }
  return {};
}

}  // namespace vesta::machine
