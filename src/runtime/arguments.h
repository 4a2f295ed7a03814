// The arguments of a call of a saved program: binds them to its parameters, compares them with the facts that a variant
// was compiled for, and makes them the inputs of its graph.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "program/program.h"
#include "vesta/detail/value.h"

namespace vesta::runtime {

using detail::Value;
using Keywords = std::vector<std::pair<std::string, Value>>;

Value to_value(const program::Scalar& s);

// Values by parameter, as Python binds them. nullptr: neither given nor a default. They point into the arguments of
// bind() and into `fallbacks`, the parameters' defaults.
struct Bound {
  std::vector<const Value*> values;
  Value rest, keywords;  // of *args and **kwargs
};
std::vector<Value> fallbacks_of(const program::Program& p);
// Throws UserError in Python's words.
void bind(const program::Program& p, const std::vector<Value>& fallbacks, std::vector<Value>& positional,
          Keywords& keywords, Bound& out);

// The value at each place of the variant. nullptr: there is none.
void find_places(const program::Variant& v, const Bound& arguments, std::vector<const Value*>& places);
// The first check that fails, as a sentence with the value found. Empty: all checks hold.
std::string first_difference(const program::Program& p, const program::Variant& v,
                             std::span<const Value* const> places);
bool holds(const program::Check& c, std::span<const Value* const> places);

}  // namespace vesta::runtime
