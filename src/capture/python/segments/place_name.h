// How events name a place of the program.
#pragma once

#include <fmt/format.h>

#include <string>

#include "capture/python/tracer/progress.h"

namespace vesta::capture {

// "attend:12": the function and the line of an instruction.
inline std::string place_name(PyCodeObject* code, int position) {
  const UserLine at = user_line(code, position);
  return fmt::format("{}:{}", at.function, at.line);
}

}  // namespace vesta::capture
