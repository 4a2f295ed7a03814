#pragma once

#include <Python.h>

namespace vesta::capture {

// The functions of Python's binary operators, in the order of NB_ADD ... NB_INPLACE_XOR. Each returns a new reference,
// or nullptr with an error set.
extern const binaryfunc binary_functions[26];

}  // namespace vesta::capture
