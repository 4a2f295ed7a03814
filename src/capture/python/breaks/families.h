// The rows of breaks, a file for each family. Within a family they are in the order of the enum, and so are families.
#pragma once

#include "capture/python/breaks/breaks.h"

namespace vesta::capture {

// Hints of several rows.
inline constexpr std::string_view kDoOutside = "do this outside of the compiled function";
inline constexpr std::string_view kMakeClassOutside = "make the class outside of the compiled function";

std::span<const BreakRow> calls_rows();
std::span<const BreakRow> classes_rows();
std::span<const BreakRow> attributes_rows();
std::span<const BreakRow> imports_rows();
std::span<const BreakRow> numbers_rows();
std::span<const BreakRow> containers_rows();
std::span<const BreakRow> tensors_rows();
std::span<const BreakRow> states_rows();
std::span<const BreakRow> exits_rows();
std::span<const BreakRow> frames_rows();

}  // namespace vesta::capture
