#include "machine/imports.h"

#include <dlfcn.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "loops/compute.h"

namespace vesta::machine {

namespace {

// F32 is computed in double: these functions are rare, and the result is correctly rounded except for ties.
template <Prim p, class T>
void each_lane(const T* a, const T* b, T* out, int32_t n) {
  using Wide = std::conditional_t<std::is_floating_point_v<T>, double, T>;
  const bool binary = arity(p) == 2;
  for (int32_t i = 0; i < n; ++i)
    out[i] = loops::get<T>(loops::compute<Wide>(p, a[i], binary ? static_cast<Wide>(b[i]) : Wide(0)));
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

template <Prim... p>
struct Prims {
  static constexpr Prim kAll[] = {p...};
  static void add_to(std::vector<LaneRow>& rows) {
    (rows.push_back({p, DType::F32, address_of(&each_lane<p, float>)}), ...);
    (rows.push_back({p, DType::F64, address_of(&each_lane<p, double>)}), ...);
  }
};

// The functions in glibc's vector library, which have the primitives' names. One that this machine's glibc lacks is not
// found.
using VectorFunctions =
    Prims<Prim::Exp, Prim::Exp2, Prim::Expm1, Prim::Log, Prim::Log2, Prim::Log10, Prim::Log1p, Prim::Sin, Prim::Cos,
          Prim::Tan, Prim::Asin, Prim::Acos, Prim::Atan, Prim::Sinh, Prim::Cosh, Prim::Tanh, Prim::Asinh, Prim::Acosh,
          Prim::Atanh, Prim::Erf, Prim::Erfc, Prim::Pow, Prim::Atan2, Prim::Hypot>;
using OtherFunctions =
    Prims<Prim::Rsqrt, Prim::Erfinv, Prim::Lgamma, Prim::Digamma, Prim::Sigmoid, Prim::Rem, Prim::Mod>;

const std::vector<LaneRow>& lane_rows() {
  static const auto* rows = [] {
    auto* r = new std::vector<LaneRow>{
        {Prim::Pow, DType::U8, address_of(&each_lane<Prim::Pow, uint8_t>)},
        {Prim::Pow, DType::I8, address_of(&each_lane<Prim::Pow, int8_t>)},
        {Prim::Pow, DType::I16, address_of(&each_lane<Prim::Pow, int16_t>)},
        {Prim::Pow, DType::I32, address_of(&each_lane<Prim::Pow, int32_t>)},
        {Prim::Pow, DType::I64, address_of(&each_lane<Prim::Pow, int64_t>)},
        {Prim::Pow, DType::U16, address_of(&each_lane<Prim::Pow, uint16_t>)},
        {Prim::Pow, DType::U32, address_of(&each_lane<Prim::Pow, uint32_t>)},
        {Prim::Pow, DType::U64, address_of(&each_lane<Prim::Pow, uint64_t>)},
    };
    VectorFunctions::add_to(*r);
    OtherFunctions::add_to(*r);
    return r;
  }();
  return *rows;
}

std::string mangled(Prim p, DType t, int lanes) {
  const bool known = std::ranges::find(VectorFunctions::kAll, p) != std::end(VectorFunctions::kAll);
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
