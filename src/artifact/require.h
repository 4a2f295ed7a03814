// What must hold of bytes that somebody else wrote. A failure is no bug of ours: the bytes are damaged.
#pragma once

#include <fmt/format.h>

#include "vesta/error.h"

#define VESTA_REQUIRE(condition, ...)                                                  \
  do {                                                                                 \
    if (!(condition)) [[unlikely]]                                                     \
      throw ::vesta::InternalError("a damaged artifact: " + fmt::format(__VA_ARGS__)); \
  } while (0)
