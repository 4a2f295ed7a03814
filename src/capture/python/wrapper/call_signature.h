// The signature of a call: the types of its arguments, the dtypes and magnitudes of sizes of tensors, and whether
// gradient mode is on. Calls of one signature may differ in everything else, so only time may depend on it.
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

class CallSignature {
 public:
  static constexpr size_t kMostArguments = 8;

  CallSignature() = default;
  // Of a call with at most kMostArguments arguments.
  explicit CallSignature(const CallArguments& call);
  bool is_of(const CallArguments& call) const;
  bool operator==(const CallSignature&) const = default;

 private:
  struct Argument {
    PyTypeObject* type;  // nullptr: a local variable that has no value
    uint64_t facts;
    bool operator==(const Argument&) const = default;
  };
  static Argument of(PyObject* x);

  size_t count_ = 0;
  bool grad_mode_ = false;
  PyObject* names_ = nullptr;  // compared, never used
  std::array<Argument, kMostArguments> arguments_{};
};

}  // namespace vesta::capture
