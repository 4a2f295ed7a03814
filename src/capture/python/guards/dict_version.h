// A number that changes whenever a dict does.
#pragma once

#include <Python.h>

#include <cstdint>

namespace vesta::capture {

// Where the number of this dict is kept; valid while the dict lives. nullptr: it cannot be had.
const uint64_t* dict_version_of(PyObject* dict);

}  // namespace vesta::capture
