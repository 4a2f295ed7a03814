#include "base/prim.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace vesta {

namespace {

struct PrimRow {
  std::string_view name;
  int arity;
  bool yields_bool;
  int cost;
};

constexpr std::array<PrimRow, kPrimCount> kPrims = {{
    {"neg", 1, false, 1},      {"abs", 1, false, 1},      {"not", 1, false, 1},     {"sqrt", 1, false, 6},
    {"rsqrt", 1, false, 8},    {"exp", 1, false, 8},      {"exp2", 1, false, 8},    {"expm1", 1, false, 12},
    {"log", 1, false, 10},     {"log2", 1, false, 10},    {"log10", 1, false, 10},  {"log1p", 1, false, 14},
    {"sin", 1, false, 12},     {"cos", 1, false, 12},     {"tan", 1, false, 20},    {"asin", 1, false, 20},
    {"acos", 1, false, 20},    {"atan", 1, false, 20},    {"sinh", 1, false, 20},   {"cosh", 1, false, 20},
    {"tanh", 1, false, 12},    {"asinh", 1, false, 25},   {"acosh", 1, false, 25},  {"atanh", 1, false, 25},
    {"erf", 1, false, 12},     {"erfc", 1, false, 25},    {"erfinv", 1, false, 30}, {"lgamma", 1, false, 80},
    {"digamma", 1, false, 80}, {"sigmoid", 1, false, 12}, {"floor", 1, false, 1},   {"ceil", 1, false, 1},
    {"trunc", 1, false, 1},    {"round", 1, false, 1},    {"isnan", 1, true, 1},    {"isinf", 1, true, 1},
    {"signbit", 1, true, 1},   {"add", 2, false, 1},      {"sub", 2, false, 1},     {"mul", 2, false, 1},
    {"div", 2, false, 4},      {"floordiv", 2, false, 6}, {"rem", 2, false, 12},    {"mod", 2, false, 15},
    {"pow", 2, false, 25},     {"atan2", 2, false, 25},   {"hypot", 2, false, 10},  {"copysign", 2, false, 1},
    {"max", 2, false, 2},      {"min", 2, false, 2},      {"fmax", 2, false, 2},    {"fmin", 2, false, 2},
    {"and", 2, false, 1},      {"or", 2, false, 1},       {"xor", 2, false, 1},     {"shl", 2, false, 1},
    {"shr", 2, false, 1},      {"eq", 2, true, 1},        {"ne", 2, true, 1},       {"lt", 2, true, 1},
    {"le", 2, true, 1},        {"gt", 2, true, 1},        {"ge", 2, true, 1},       {"select", 3, false, 1},
    {"fma", 3, false, 1},
}};

constexpr std::array<std::string_view, 8> kReduce = {"sum", "prod", "max", "min", "any", "all", "argmax", "argmin"};

const PrimRow& row(Prim p) { return kPrims[static_cast<size_t>(p)]; }

}  // namespace

std::string_view name(Prim p) { return row(p).name; }
int arity(Prim p) { return row(p).arity; }
bool yields_bool(Prim p) { return row(p).yields_bool; }
int cost(Prim p) { return row(p).cost; }

Prim parse_prim(std::string_view text) {
  const auto found = std::ranges::find(kPrims, text, &PrimRow::name);
  if (found != kPrims.end()) return static_cast<Prim>(found - kPrims.begin());
  throw UserError(fmt::format("unknown primitive \"{}\"", text));
}

std::string_view name(ReduceOp op) { return kReduce[static_cast<size_t>(op)]; }

ReduceOp parse_reduce_op(std::string_view text) {
  const auto found = std::ranges::find(kReduce, text);
  if (found != kReduce.end()) return static_cast<ReduceOp>(found - kReduce.begin());
  throw UserError(fmt::format("unknown reduction \"{}\"", text));
}

}  // namespace vesta
