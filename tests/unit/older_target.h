// A target that this machine is not, whose code it runs all the same: x86-64-v2, without AVX.
#pragma once

#include "base/target.h"

namespace vesta {

inline Target older_target() {
  Target t = host_target();
  t.cpu = "x86-64-v2";
  t.features = "";
  t.vector_bytes = 16;
  t.avx512 = t.half_convert = t.fma = false;
  return t;
}

}  // namespace vesta
