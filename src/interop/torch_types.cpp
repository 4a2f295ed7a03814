#include "interop/torch_types.h"

#include "base/check.h"

namespace vesta {

DType to_dtype(c10::ScalarType t) {
  switch (t) {
    case c10::ScalarType::Bool: return DType::Bool;
    case c10::ScalarType::Byte: return DType::U8;
    case c10::ScalarType::Char: return DType::I8;
    case c10::ScalarType::Short: return DType::I16;
    case c10::ScalarType::Int: return DType::I32;
    case c10::ScalarType::Long: return DType::I64;
    case c10::ScalarType::UInt16: return DType::U16;
    case c10::ScalarType::UInt32: return DType::U32;
    case c10::ScalarType::UInt64: return DType::U64;
    case c10::ScalarType::Half: return DType::F16;
    case c10::ScalarType::BFloat16: return DType::BF16;
    case c10::ScalarType::Float: return DType::F32;
    case c10::ScalarType::Double: return DType::F64;
    case c10::ScalarType::ComplexHalf: return DType::C32;
    case c10::ScalarType::ComplexFloat: return DType::C64;
    case c10::ScalarType::ComplexDouble: return DType::C128;
    case c10::ScalarType::Float8_e4m3fn: return DType::F8E4M3FN;
    case c10::ScalarType::Float8_e5m2: return DType::F8E5M2;
    case c10::ScalarType::Float8_e4m3fnuz: return DType::F8E4M3FNUZ;
    case c10::ScalarType::Float8_e5m2fnuz: return DType::F8E5M2FNUZ;
    case c10::ScalarType::Float8_e8m0fnu: return DType::F8E8M0FNU;
    default: return DType::Other;
  }
}

c10::ScalarType to_scalar_type(DType t) {
  switch (t) {
    case DType::Bool: return c10::ScalarType::Bool;
    case DType::U8: return c10::ScalarType::Byte;
    case DType::I8: return c10::ScalarType::Char;
    case DType::I16: return c10::ScalarType::Short;
    case DType::I32: return c10::ScalarType::Int;
    case DType::I64: return c10::ScalarType::Long;
    case DType::U16: return c10::ScalarType::UInt16;
    case DType::U32: return c10::ScalarType::UInt32;
    case DType::U64: return c10::ScalarType::UInt64;
    case DType::F16: return c10::ScalarType::Half;
    case DType::BF16: return c10::ScalarType::BFloat16;
    case DType::F32: return c10::ScalarType::Float;
    case DType::F64: return c10::ScalarType::Double;
    case DType::C32: return c10::ScalarType::ComplexHalf;
    case DType::C64: return c10::ScalarType::ComplexFloat;
    case DType::C128: return c10::ScalarType::ComplexDouble;
    case DType::F8E4M3FN: return c10::ScalarType::Float8_e4m3fn;
    case DType::F8E5M2: return c10::ScalarType::Float8_e5m2;
    case DType::F8E4M3FNUZ: return c10::ScalarType::Float8_e4m3fnuz;
    case DType::F8E5M2FNUZ: return c10::ScalarType::Float8_e5m2fnuz;
    case DType::F8E8M0FNU: return c10::ScalarType::Float8_e8m0fnu;
    case DType::Other: break;
  }
  VESTA_CHECK(false, "no torch type for dtype other");
}

Device to_device(c10::Device d) {
  switch (d.type()) {
    case c10::DeviceType::CPU: return {DeviceType::CPU, -1};
    case c10::DeviceType::CUDA: return {DeviceType::CUDA, static_cast<int8_t>(d.index())};
    case c10::DeviceType::Meta: return {DeviceType::Meta, -1};
    default: return {DeviceType::Other, static_cast<int8_t>(d.index())};
  }
}

c10::Device to_torch(Device d) {
  switch (d.type) {
    case DeviceType::CPU: return c10::Device(c10::DeviceType::CPU);
    case DeviceType::CUDA: return c10::Device(c10::DeviceType::CUDA, d.index);
    case DeviceType::Meta: return c10::Device(c10::DeviceType::Meta);
    case DeviceType::Other: break;
  }
  VESTA_UNSUPPORTED("a device other than cpu and cuda");
}

MemoryFormat to_memory_format(c10::MemoryFormat f) {
  switch (f) {
    case c10::MemoryFormat::Contiguous: return MemoryFormat::Contiguous;
    case c10::MemoryFormat::Preserve: return MemoryFormat::Preserve;
    case c10::MemoryFormat::ChannelsLast: return MemoryFormat::ChannelsLast;
    case c10::MemoryFormat::ChannelsLast3d: return MemoryFormat::ChannelsLast3d;
    default: VESTA_UNSUPPORTED("an unknown memory format");
  }
}

c10::MemoryFormat to_torch(MemoryFormat f) {
  switch (f) {
    case MemoryFormat::Contiguous: return c10::MemoryFormat::Contiguous;
    case MemoryFormat::Preserve: return c10::MemoryFormat::Preserve;
    case MemoryFormat::ChannelsLast: return c10::MemoryFormat::ChannelsLast;
    case MemoryFormat::ChannelsLast3d: return c10::MemoryFormat::ChannelsLast3d;
  }
  VESTA_CHECK(false, "unknown memory format");
}

ConjNegBits conj_neg_of(const c10::TensorImpl& t) { return {t.is_conj(), t.is_neg()}; }

}  // namespace vesta
