// VESTA_REQUIRE checks data that was read from a file. A failure means that the file is damaged, not that Vesta has a
// bug.
#pragma once

#include <fmt/format.h>

#include "vesta/error.h"

#define VESTA_REQUIRE(condition, ...)                                                  \
  do {                                                                                 \
    if (!(condition)) [[unlikely]]                                                     \
      throw ::vesta::InternalError("a damaged artifact: " + fmt::format(__VA_ARGS__)); \
  } while (0)
