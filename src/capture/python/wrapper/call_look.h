// How a call looks: facts of its arguments that are cheap to compare, and whether gradient mode is on. Calls that look
// the same may differ in everything else, so only time may depend on it.
#pragma once

#include <Python.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace vesta::capture {

// What a caller by the vectorcall protocol gives: positional arguments and values of keywords, and the keywords' names.
struct CallArguments {
  PyObject* const* items;
  size_t positional;
  PyObject* names;  // a tuple or nullptr
  size_t count() const { return positional + (names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0); }
};

class CallLook {
 public:
  static constexpr size_t kMostArguments = 8;

  CallLook() = default;
  // Of a call with at most kMostArguments arguments.
  explicit CallLook(const CallArguments& call);
  bool is_of(const CallArguments& call) const;

 private:
  struct Look {
    PyTypeObject* type;
    uint64_t facts;
    bool operator==(const Look&) const = default;
  };
  static Look look(PyObject* x);

  size_t count_ = 0;
  bool grad_mode_ = false;
  PyObject* names_ = nullptr;  // compared, never used
  std::array<Look, kMostArguments> looks_{};
};

}  // namespace vesta::capture
