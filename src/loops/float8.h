// Conversions between float and the float8 formats, as bits in memory, rounding to nearest even. A float that is too
// large becomes NaN (infinity where the format has one). torch's own conversion may differ: e4m3fn_saturates().
#pragma once

#include "base/type.h"

namespace vesta::loops {

float float8_to_f32(DType format, uint8_t bits);
uint8_t f32_to_float8(DType format, float x);

// Whether the torch of this build converts numbers that are too large for float8_e4m3fn, infinity included, to the
// largest finite value. Versions before 2.13 give NaN.
bool e4m3fn_saturates();

}  // namespace vesta::loops
