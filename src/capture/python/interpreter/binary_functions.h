#pragma once

#include <Python.h>

namespace vesta::capture {

// What Python's binary operators do, in the order of NB_ADD ... NB_INPLACE_XOR: new references, nullptr with an error
// set.
extern const binaryfunc binary_functions[26];

}  // namespace vesta::capture
