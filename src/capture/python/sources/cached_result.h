// Reads the cache of a function of functools.lru_cache without a call: its counts and its order do not change.
#pragma once

#include "capture/python/object.h"

namespace vesta::capture {

// Made by functools.lru_cache or functools.cache, in C.
bool is_cached_function(PyObject* x);

// The key under which such a function keeps the result of a call with `n` positional arguments, then one for each of
// `names` (a tuple or nullptr). A new reference; nullptr with an error set.
Object cache_key(PyObject* function, PyObject* const* args, Py_ssize_t n, PyObject* names);

// The result under the key, borrowed; nullptr without an error: there is none.
PyObject* cached_result(PyObject* function, PyObject* key);

}  // namespace vesta::capture
