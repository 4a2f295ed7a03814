// The scalar primitives: everything that a fused kernel computes is made of these, and a code generator implements
// nothing else. The semantics below bind every generator and every pass.
//
// A primitive has one compute type T, the `dtype` of the instruction. Float types follow IEEE 754 in T, and the only
// fast-math is the contraction of a*b+c into a fused multiply-add where T's rounding rule allows it (docs/numerics.md).
// F16 and BF16 occur only in Cast, Load and Store: arithmetic on them is in F32. Integers wrap (two's complement). Bool
// is 0 or 1.
#pragma once

#include <cstdint>
#include <string_view>

namespace vesta {

enum class Prim : uint8_t {
  // unary, T -> T
  Neg,
  Abs,  // integers wrap: abs(min) = min; float: sign bit only, NaN stays NaN
  Not,  // Bool: logical; integers: bitwise
  Sqrt,
  Rsqrt,  // IEEE sqrt; rsqrt = 1 / sqrt(x)
  Exp,
  Exp2,
  Expm1,
  Log,
  Log2,
  Log10,
  Log1p,
  Sin,
  Cos,
  Tan,
  Asin,
  Acos,
  Atan,
  Sinh,
  Cosh,
  Tanh,
  Asinh,
  Acosh,
  Atanh,
  Erf,
  Erfc,
  Erfinv,
  Lgamma,
  Digamma,
  Sigmoid,  // 1 / (1 + exp(-x)), no overflow
  Floor,
  Ceil,
  Trunc,
  Round,  // Round: half to even
  // unary, T -> Bool
  IsNan,
  IsInf,
  SignBit,
  // binary, T x T -> T
  Add,
  Sub,
  Mul,
  Div,       // float: IEEE; integers: towards zero; x/0 is never executed in a live lane, because operators guard it
  FloorDiv,  // integers only: towards minus infinity
  Rem,       // C fmod / %: sign of the dividend
  Mod,       // sign of the divisor (Python, torch.remainder)
  Pow,
  Atan2,
  Hypot,
  CopySign,
  Max,
  Min,  // NaN if either is NaN (torch.maximum)
  FMax,
  FMin,  // the other operand if one is NaN (torch.fmax)
  And,
  Or,
  Xor,  // Bool: logical; integers: bitwise
  Shl,
  Shr,  // Shr is arithmetic for signed types; shift counts out of range as ATen defines
  // binary, T x T -> Bool; NaN compares unequal, unordered comparisons are false
  Eq,
  Ne,
  Lt,
  Le,
  Gt,
  Ge,
  // ternary
  Select,  // Bool, T, T -> T
  Fma,     // T, T, T -> T, floats only: a * b + c, rounded once if the processor has such an instruction
};

inline constexpr int kPrimCount = static_cast<int>(Prim::Fma) + 1;

std::string_view name(Prim p);           // "add", "select", ...
Prim parse_prim(std::string_view text);  // throws UserError
int arity(Prim p);                       // 1, 2 or 3
bool yields_bool(Prim p);
// Rough cost of one lane, in units of a multiplication: Exp 8, Erf 12, Div 4, Pow 25, ... Fusion reads it.
int cost(Prim p);

// How a reduction or a scan combines values. ArgMax and ArgMin: NaN beats all numbers; the first index wins among
// equals.
enum class ReduceOp : uint8_t { Sum, Prod, Max, Min, Any, All, ArgMax, ArgMin };
std::string_view name(ReduceOp op);
ReduceOp parse_reduce_op(std::string_view text);

}  // namespace vesta
