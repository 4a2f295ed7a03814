// The errors that cross Vesta's entry points.
//
//   UserError      the caller asked for something impossible; the message says what to do next
//   Unsupported    a correct program that Vesta does not compile; the entry points run it eager
//     NeedsValue   ... because the program reads a tensor's value (item, nonzero, bool(tensor))
//   InternalError  a bug in Vesta; the entry points run the program eager, count the call and log it once
//
// With Options::strict, entry points throw Unsupported and InternalError instead of running eager.
#pragma once

#include <stdexcept>
#include <string>

#if defined(_WIN32)
#define VESTA_API
#else
#define VESTA_API __attribute__((visibility("default")))
#endif

namespace vesta {

class VESTA_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class VESTA_API UserError : public Error {
 public:
  using Error::Error;
};

class VESTA_API Unsupported : public Error {
 public:
  using Error::Error;
};

class VESTA_API NeedsValue : public Unsupported {
 public:
  using Unsupported::Unsupported;
};

class VESTA_API InternalError : public Error {
 public:
  using Error::Error;
};

}  // namespace vesta
