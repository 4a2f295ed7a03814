// A number that changes whenever a dict does: two equal readings mean that nobody wrote to the dict in between.
#pragma once

#include <Python.h>

#include <cstdint>

namespace vesta::capture {

// The address of this dict's number, for the life of the dict. nullptr: Python has no watcher left for us.
const uint64_t* dict_version_of(PyObject* dict);

}  // namespace vesta::capture
