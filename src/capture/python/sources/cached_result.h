// What a function of functools.lru_cache keeps, looked at without a call: none of its counts and no order changes.
#pragma once

#include "capture/python/object.h"

namespace vesta::capture {

// Made by functools.lru_cache or functools.cache, in C.
bool is_cached_function(PyObject* x);

// Under what such a function keeps the result of a call: `n` positional arguments, then one for each of `names` (a
// tuple or nullptr). A new reference, nullptr with an error set.
Object cache_key(PyObject* function, PyObject* const* args, Py_ssize_t n, PyObject* names);

// The result kept under the key, borrowed; nullptr without an error: there is none.
PyObject* cached_result(PyObject* function, PyObject* key);

}  // namespace vesta::capture
