// Checks that build their message only when they fail, with fmt's format strings. Each macro throws one of the error
// types of vesta/error.h; none ends the process.
#pragma once

#include <fmt/format.h>

#include "vesta/error.h"

namespace vesta::detail {
template <class E>
[[noreturn]] void fail(const char* file, int line, const std::string& message) {
  if constexpr (std::is_same_v<E, InternalError>) {
    throw E(fmt::format("{} ({}:{}; this is a bug in Vesta)", message, file, line));
  } else {
    throw E(message);
  }
}
}  // namespace vesta::detail

// A broken invariant of Vesta: throws InternalError.
#define VESTA_CHECK(cond, ...)                                                                     \
  do {                                                                                             \
    if (!(cond)) [[unlikely]]                                                                      \
      ::vesta::detail::fail<::vesta::InternalError>(__FILE__, __LINE__, fmt::format(__VA_ARGS__)); \
  } while (0)

// A mistake of the caller: throws UserError. The message says what to do next.
#define VESTA_USER_CHECK(cond, ...)                                                            \
  do {                                                                                         \
    if (!(cond)) [[unlikely]]                                                                  \
      ::vesta::detail::fail<::vesta::UserError>(__FILE__, __LINE__, fmt::format(__VA_ARGS__)); \
  } while (0)

// A correct program that Vesta does not compile: throws Unsupported, and the call runs eager.
#define VESTA_UNSUPPORTED(...) ::vesta::detail::fail<::vesta::Unsupported>(__FILE__, __LINE__, fmt::format(__VA_ARGS__))
