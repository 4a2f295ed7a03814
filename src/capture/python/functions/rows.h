// What the rows of C functions are made of, and the families that they stand in: a file each.
//
// To add a function, add its name to a row of its family, or add a row; tests/capture/test_known_functions.py lists
// rows that do not resolve, and methods of known classes that have no row.
#pragma once

#include <climits>
#include <span>

#include "capture/python/functions/functions.h"

namespace vesta::capture {

// The minor versions of Python 3 or torch 2 that have a function or class; every supported version by default.
struct Versions {
  enum class Of : unsigned char { Python, Torch, CudaBuild } of = Of::Python;
  int first = 0, last = INT_MAX;
};
constexpr Versions since_python(int minor) { return {Versions::Of::Python, minor, INT_MAX}; }
constexpr Versions until_python(int minor) { return {Versions::Of::Python, 0, minor}; }
constexpr Versions since_torch(int minor) { return {Versions::Of::Torch, minor, INT_MAX}; }
constexpr Versions until_torch(int minor) { return {Versions::Of::Torch, 0, minor}; }
constexpr Versions in_cuda_builds() { return {Versions::Of::CudaBuild}; }  // of torch

// Names are separated by spaces. A class may also be a Python expression without spaces, evaluated in the module:
// "type(iter([]))" has no name of its own.
struct ClassRow {
  const char* module;
  const char* classes;
  Versions versions = {};
};

// Functions of a module, or methods and getters of classes.
struct FunctionRow {
  const char* module;
  const char* classes;  // each of them has each of the names; "": functions of the module
  const char* names;
  Callable known;
  Versions versions = {};
};

constexpr Callable refused(const char* reason, Break why = Break::UntraceableFunction) {
  Callable c(Effect::Refused);
  c.refusal = why;
  c.reason = reason;
  return c;
}

struct Family {
  std::span<const ClassRow> classes;
  std::span<const FunctionRow> functions;
};
Family builtin_functions();
Family builtin_classes();
Family containers();
Family iterators();
Family exceptions();
Family standard_library();
Family torch_operators();
Family torch_state_functions();
// All families above.
std::span<const Family> families();
// Resolved when a trace meets a function of numpy.
Family numpy_functions();

// Special methods, which Python's data model gives a meaning that is the same in every known class. (module and classes
// are "".) A row of the class itself comes first.
std::span<const FunctionRow> special_methods();

// Where torch keeps its operators as C functions. One without a row is known if PyTorch's dispatcher has an operator of
// that name in its namespace aten which takes or returns a tensor: the dispatcher then shows each call to the trace,
// and the operator's schema says what it writes.
struct OperatorHome {
  const char* module;
  const char* object;  // of the module; "": the module itself
};
std::span<const OperatorHome> operator_homes();
bool is_operator_on_tensors(std::string_view name);
// Classes whose objects call an operator of torch.library through the dispatcher's keys, as C functions of torch._ops
// do.
std::span<const ClassRow> operator_classes();

}  // namespace vesta::capture
