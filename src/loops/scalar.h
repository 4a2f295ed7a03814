// One element of any real type, and the meaning of every primitive on it. The constant folders use it; generated
// code must agree with it, and tests interpret kernels with it.
#pragma once

#include "base/prim.h"
#include "base/type.h"

namespace vesta::loops {

// Floats are in `f`, exactly representable in their own type (a value of F32 or of a narrow type is a float). Integers
// and Bool are in `i`, sign- or zero-extended from their own type; U64 keeps its bits.
struct Scalar {
  double f = 0;
  int64_t i = 0;
};

Scalar from_double(DType t, double v);    // converts as cast() from F64 does
Scalar from_integer(DType t, int64_t v);  // wraps to the type

// What a reduction gives where it has nothing to reduce.
Scalar identity(ReduceOp op, DType t);
// prim on operands of type T (Select: operand 0 is Bool). The result is Bool for comparisons and tests, else T.
Scalar compute(Prim prim, DType t, Scalar a, Scalar b, Scalar c);
// ATen's conversions on this machine. Float to integer truncates; NaN and numbers out of range give what the hardware
// gives.
Scalar cast(DType from, DType to, Scalar v);

// Special functions that the C library does not have.
double erfinv(double x);
double digamma(double x);

}  // namespace vesta::loops
