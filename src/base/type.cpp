#include "base/type.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace vesta {

namespace {

struct TypeRow {
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<TypeRow, 22> kTypes = {
    {{"bool", 1},       {"u8", 1},         {"i8", 1},        {"i16", 2},   {"i32", 4},      {"i64", 8},
     {"u16", 2},        {"u32", 4},        {"u64", 8},       {"f16", 2},   {"bf16", 2},     {"f32", 4},
     {"f64", 8},        {"c32", 4},        {"c64", 8},       {"c128", 16}, {"f8e4m3fn", 1}, {"f8e5m2", 1},
     {"f8e4m3fnuz", 1}, {"f8e5m2fnuz", 1}, {"f8e8m0fnu", 1}, {"other", 0}}};

const TypeRow& row(DType t) { return kTypes[static_cast<size_t>(t)]; }

constexpr std::array<std::string_view, 4> kFormats = {"contiguous", "preserve", "channels_last", "channels_last_3d"};
constexpr std::array<std::string_view, 4> kDevices = {"cpu", "cuda", "meta", "other"};

int rank(DType t) {  // F16 and BF16 share a rank: their promotion is F32
  switch (t) {
    case DType::F16:
    case DType::BF16: return 1;
    case DType::F32: return 2;
    default: return 3;
  }
}

DType promote_integral(DType a, DType b) {
  if (a == b || b == DType::Bool) return a;
  if (a == DType::Bool) return b;
  bool sa = is_signed(a), sb = is_signed(b);
  if (sa == sb) return element_size(a) >= element_size(b) ? a : b;
  DType u = sa ? b : a, s = sa ? a : b;
  if (u == DType::U8) return element_size(s) == 1 ? DType::I16 : s;
  // PyTorch defines no promotion of wide unsigned types with signed types (it asks for a cast).
  VESTA_USER_CHECK(false, "promotion of {} and {} is not defined; cast one of them", name(a), name(b));
}

}  // namespace

int64_t element_size(DType t) { return row(t).bytes; }
bool is_float(DType t) { return (t >= DType::F16 && t <= DType::F64) || is_float8(t); }
bool is_float8(DType t) { return t >= DType::F8E4M3FN && t <= DType::F8E8M0FNU; }
bool is_narrow(DType t) { return t == DType::F16 || t == DType::BF16 || is_float8(t); }
bool is_complex(DType t) { return t == DType::C32 || t == DType::C64 || t == DType::C128; }
bool is_integral(DType t) { return t >= DType::U8 && t <= DType::U64; }
bool is_signed(DType t) {
  return t == DType::I8 || t == DType::I16 || t == DType::I32 || t == DType::I64 || is_float(t) || is_complex(t);
}

DType opmath(DType t) {
  if (is_narrow(t)) return DType::F32;
  return t == DType::C32 ? DType::C64 : t;
}

DType real_of(DType t) {
  switch (t) {
    case DType::C32: return DType::F16;
    case DType::C64: return DType::F32;
    case DType::C128: return DType::F64;
    default: return t;
  }
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  const auto joins = [](DType t) { return t != DType::Other && !is_float8(t); };
  VESTA_USER_CHECK(joins(a) && joins(b), "promotion of {} and {} is not defined", name(a), name(b));
  if (is_complex(a) || is_complex(b)) {
    DType ra = is_complex(a) ? real_of(a) : a, rb = is_complex(b) ? real_of(b) : b;
    DType real = is_complex(a) && is_complex(b) ? promote(ra, rb)
                 : is_complex(a)                ? (is_float(rb) ? promote(ra, rb) : ra)
                                                : (is_float(ra) ? promote(ra, rb) : rb);
    return real == DType::F64 ? DType::C128 : (real == DType::F32 || real == DType::BF16) ? DType::C64 : DType::C32;
  }
  if (is_float(a) && is_float(b)) return rank(a) == rank(b) ? DType::F32 : (rank(a) > rank(b) ? a : b);
  if (is_float(a)) return a;
  if (is_float(b)) return b;
  return promote_integral(a, b);
}

std::string_view name(DType t) { return row(t).name; }

DType parse_dtype(std::string_view text) {
  const auto found = std::ranges::find(kTypes, text, &TypeRow::name);
  if (found != kTypes.end()) return static_cast<DType>(found - kTypes.begin());
  throw UserError(
      fmt::format("unknown dtype \"{}\"; known: bool u8 i8 i16 i32 i64 u16 u32 u64 f16 bf16 f32 f64 c32 c64 "
                  "c128 f8e4m3fn f8e5m2 f8e4m3fnuz f8e5m2fnuz f8e8m0fnu other",
                  text));
}

std::string to_string(Device d) {
  std::string s(kDevices[static_cast<size_t>(d.type)]);
  return d.index < 0 ? s : s + ":" + std::to_string(d.index);
}

Device parse_device(std::string_view text) {
  size_t colon = text.find(':');
  for (size_t i = 0; i < kDevices.size(); ++i) {
    if (kDevices[i] != text.substr(0, colon)) continue;
    int8_t index = -1;
    if (colon != std::string_view::npos) index = static_cast<int8_t>(std::stoi(std::string(text.substr(colon + 1))));
    return {static_cast<DeviceType>(i), index};
  }
  throw UserError(fmt::format("unknown device \"{}\"; known: cpu cuda meta other", text));
}

std::string_view name(MemoryFormat f) { return kFormats[static_cast<size_t>(f)]; }

MemoryFormat parse_memory_format(std::string_view text) {
  const auto found = std::ranges::find(kFormats, text);
  if (found != kFormats.end()) return static_cast<MemoryFormat>(found - kFormats.begin());
  throw UserError(fmt::format("unknown memory format \"{}\"", text));
}

}  // namespace vesta
