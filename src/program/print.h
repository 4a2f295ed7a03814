// Prints a saved program for people. No code parses these texts.
#pragma once

#include <string>

#include "program/program.h"

namespace vesta::program {

// A place as Python writes it: "batch['mask']", "xs[0]".
std::string text(const Program& p, const Variant& v, int place);
// A check as a condition: "len(xs) == 2".
std::string text(const Program& p, const Variant& v, const Check& c);
// "f(x, mask=None, *, scale=1.0)".
std::string signature(const Program& p);
// The parameters, variants, weights, and the assumptions that nothing checks.
std::string print(const Program& p);

}  // namespace vesta::program
