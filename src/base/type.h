// Element types, devices and memory formats: PyTorch's, without PyTorch's headers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace vesta {

// `Other` is every type that Vesta does not compute with (quantised, bits, ...). F8E4M3FN to F8E8M0FNU are
// torch.float8_e4m3fn to torch.float8_e8m0fnu.
enum class DType : uint8_t {
  Bool,
  U8,
  I8,
  I16,
  I32,
  I64,
  U16,
  U32,
  U64,
  F16,
  BF16,
  F32,
  F64,
  C32,
  C64,
  C128,
  F8E4M3FN,
  F8E5M2,
  F8E4M3FNUZ,
  F8E5M2FNUZ,
  F8E8M0FNU,
  Other
};

enum class DeviceType : uint8_t { CPU, CUDA, Meta, Other };

struct Device {
  DeviceType type = DeviceType::CPU;
  int8_t index = -1;  // -1: the current device
  bool operator==(const Device&) const = default;
};

enum class MemoryFormat : uint8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };
enum class Layout : uint8_t { Strided, Other };

// The conj and neg bits of a tensor: operations that its memory does not show yet (is_conj(), is_neg()).
struct ConjNegBits {
  bool conj = false;
  bool neg = false;
  bool any() const { return conj || neg; }
  bool operator==(const ConjNegBits&) const = default;
};

// Bytes of one element; 0 for Other.
int64_t element_size(DType t);
bool is_float(DType t);  // F16, BF16, F32, F64 and the float8 types
bool is_float8(DType t);
bool is_narrow(DType t);    // floats of 8 or 16 bits: memory holds them, arithmetic is in F32
bool is_complex(DType t);   // C32 (complex half), C64, C128
bool is_integral(DType t);  // integers, not Bool
bool is_signed(DType t);
// The type in which arithmetic happens: F32 for narrow floats, C64 for C32, otherwise `t` (ATen's opmath_t).
DType opmath(DType t);
// The real type of a complex type (C64 -> F32); `t` for real types.
DType real_of(DType t);
// PyTorch's promotion of two types of equal category rank (`c10::promoteTypes`). Throws UserError where PyTorch has
// none: a float8 type with any other type.
DType promote(DType a, DType b);

// "f32", "bf16", "f8e4m3fn", "i64", "bool", "c64", ... as texts of graphs print them.
std::string_view name(DType t);
// The inverse of name(). Throws UserError for an unknown text.
DType parse_dtype(std::string_view text);
std::string to_string(Device d);  // "cpu", "cuda:0"
Device parse_device(std::string_view text);
std::string_view name(MemoryFormat f);  // "contiguous", "preserve", "channels_last", "channels_last_3d"
MemoryFormat parse_memory_format(std::string_view text);

}  // namespace vesta
