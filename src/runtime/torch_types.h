// vesta's plain types to and from c10's.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include "base/type.h"

namespace vesta::runtime {

c10::ScalarType to_scalar_type(DType t);  // InternalError for Other
DType from_scalar_type(c10::ScalarType t);
c10::Device to_device(Device d);  // InternalError for Other
Device from_device(c10::Device d);
c10::MemoryFormat to_memory_format(MemoryFormat f);

}  // namespace vesta::runtime
