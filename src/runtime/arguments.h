// The arguments of a call of a saved program: bound to its parameters, compared with what a variant was compiled for,
// and turned into the inputs of its graph.
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

// Values by parameter, as Python binds them; nullptr: not given, and without a default. They point into what bind() was
// given and into `fallbacks`, those of the parameters.
struct Bound {
  std::vector<const Value*> values;
  Value rest, keywords;  // of *args and **kwargs
};
std::vector<Value> fallbacks_of(const program::Program& p);
// Throws UserError with Python's words for it.
void bind(const program::Program& p, const std::vector<Value>& fallbacks, std::vector<Value>& positional,
          Keywords& keywords, Bound& out);

// The value at each place of the variant; nullptr: there is none.
void find_places(const program::Variant& v, const Bound& arguments, std::vector<const Value*>& places);
// The first check that does not hold, as a sentence with what was found; empty: all hold.
std::string first_difference(const program::Program& p, const program::Variant& v,
                             std::span<const Value* const> places);
bool holds(const program::Check& c, std::span<const Value* const> places);

}  // namespace vesta::runtime
