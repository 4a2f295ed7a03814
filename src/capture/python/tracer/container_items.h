// What instructions do to containers and iterators: items, membership, length, iteration, unpacking, displays.
//
// Guarantees: each operation gives what Python's gives, reads through ContainerModel's guards, and logs its writes.
// Functions have the contracts of interpreter/operations.h.
#pragma once

#include "capture/python/object.h"

namespace vesta::capture {

class Trace;

class ContainerItems {
 public:
  explicit ContainerItems(Trace& trace) : t_(trace) {}

  PyObject* get(PyObject* container, PyObject* key);
  int set(PyObject* container, PyObject* key, PyObject* value);
  int contains(PyObject* container, PyObject* x);
  Py_ssize_t length(PyObject* x);
  // False (the trace has ended, or an error is set): x is not known well enough to be iterated over by C code.
  bool may_iterate(PyObject* x);
  PyObject* get_iter(PyObject* x);
  PyObject* next(PyObject* iterator);
  // False (the trace has ended): advancing the iterator would be seen after the trace.
  bool may_advance(PyObject* iterator);
  int unpack(PyObject* x, int before, int after, PyObject** out);
  PyObject* list_to_tuple(PyObject* list);
  int extend_list(PyObject* list, PyObject* iterable);
  int update_set(PyObject* set, PyObject* iterable);

 private:
  // An item of a list or tuple that existed before the trace.
  PyObject* get_known_index(PyObject* sequence, int source, PyObject* key);
  PyObject* get_dict_item(PyObject* dict, int source, PyObject* key);
  // What a defaultdict that existed before the trace makes of a key that it lacks.
  PyObject* missing_item(PyObject* dict, int source, PyObject* key);
  int set_tensor_item(PyObject* tensor, PyObject* key, PyObject* value);
  // A key as dicts take it: guarded by value, without symbols. Empty with an error set.
  Object plain_key(PyObject* container, PyObject* key);

  Trace& t_;
};

}  // namespace vesta::capture
