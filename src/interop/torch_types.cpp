#include "interop/torch_types.h"

#include "base/check.h"

namespace vesta {

namespace {

constexpr std::pair<DType, c10::ScalarType> kTypes[] = {
    {DType::Bool, c10::ScalarType::Bool},
    {DType::U8, c10::ScalarType::Byte},
    {DType::I8, c10::ScalarType::Char},
    {DType::I16, c10::ScalarType::Short},
    {DType::I32, c10::ScalarType::Int},
    {DType::I64, c10::ScalarType::Long},
    {DType::U16, c10::ScalarType::UInt16},
    {DType::U32, c10::ScalarType::UInt32},
    {DType::U64, c10::ScalarType::UInt64},
    {DType::F16, c10::ScalarType::Half},
    {DType::BF16, c10::ScalarType::BFloat16},
    {DType::F32, c10::ScalarType::Float},
    {DType::F64, c10::ScalarType::Double},
    {DType::C32, c10::ScalarType::ComplexHalf},
    {DType::C64, c10::ScalarType::ComplexFloat},
    {DType::C128, c10::ScalarType::ComplexDouble},
    {DType::F8E4M3FN, c10::ScalarType::Float8_e4m3fn},
    {DType::F8E5M2, c10::ScalarType::Float8_e5m2},
    {DType::F8E4M3FNUZ, c10::ScalarType::Float8_e4m3fnuz},
    {DType::F8E5M2FNUZ, c10::ScalarType::Float8_e5m2fnuz},
    {DType::F8E8M0FNU, c10::ScalarType::Float8_e8m0fnu},
};
constexpr std::pair<MemoryFormat, c10::MemoryFormat> kFormats[] = {
    {MemoryFormat::Contiguous, c10::MemoryFormat::Contiguous},
    {MemoryFormat::Preserve, c10::MemoryFormat::Preserve},
    {MemoryFormat::ChannelsLast, c10::MemoryFormat::ChannelsLast},
    {MemoryFormat::ChannelsLast3d, c10::MemoryFormat::ChannelsLast3d},
};

}  // namespace

DType to_dtype(c10::ScalarType t) {
  for (const auto& [ours, theirs] : kTypes)
    if (theirs == t) return ours;
  return DType::Other;
}

c10::ScalarType to_scalar_type(DType t) {
  for (const auto& [ours, theirs] : kTypes)
    if (ours == t) return theirs;
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
  for (const auto& [ours, theirs] : kFormats)
    if (theirs == f) return ours;
  VESTA_UNSUPPORTED("an unknown memory format");
}

c10::MemoryFormat to_torch(MemoryFormat f) {
  for (const auto& [ours, theirs] : kFormats)
    if (ours == f) return theirs;
  VESTA_CHECK(false, "unknown memory format");
}

ConjNegBits conj_neg_of(const c10::TensorImpl& t) { return {t.is_conj(), t.is_neg()}; }

Bytes bytes_of(const at::TensorBase& t) {
  const char* begin = static_cast<const char*>(t.const_data_ptr());
  if (t.numel() == 0) return {begin, begin};
  int64_t last = 0;
  for (int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
  return {begin, begin + (last + 1) * static_cast<int64_t>(t.itemsize())};
}

}  // namespace vesta
