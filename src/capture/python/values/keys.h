// Keys of dicts and sets that are compared and hashed without Python code of the program.
#pragma once

#include <Python.h>

namespace vesta::capture {

// A class, function or descriptor whose hash and equality are its identity.
bool is_plain_key(PyObject* x);
bool holds_plain_keys(PyObject* set);  // scalars and plain keys, and nothing else
// The keys of a dict in its order (an OrderedDict has an order of its own), as a new tuple; nullptr with an error set.
PyObject* keys_of(PyObject* dict);
// In the dict's own storage; -1 with an error set.
int set_dict_item(PyObject* dict, PyObject* key, PyObject* value);
int delete_dict_item(PyObject* dict, PyObject* key);
int clear_dict(PyObject* dict);

}  // namespace vesta::capture
