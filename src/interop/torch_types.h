// Converts torch's enumerations to Vesta's and back. Every value has a result or an error; none is guessed.
#pragma once

#include <ATen/core/TensorBase.h>
#include <c10/core/Device.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>
#include <c10/core/TensorImpl.h>

#include "base/type.h"

namespace vesta {

DType to_dtype(c10::ScalarType t);        // Other for types Vesta does not compute with
c10::ScalarType to_scalar_type(DType t);  // InternalError for Other
Device to_device(c10::Device d);          // DeviceType::Other for devices Vesta does not know
c10::Device to_torch(Device d);           // Unsupported for Other
MemoryFormat to_memory_format(c10::MemoryFormat f);
c10::MemoryFormat to_torch(MemoryFormat f);
ConjNegBits conj_neg_of(const c10::TensorImpl& t);

// From the first to past the last byte that the elements of a strided tensor lie in; empty if it has none.
struct Bytes {
  const char *begin, *end;
};
Bytes bytes_of(const at::TensorBase& t);

}  // namespace vesta
