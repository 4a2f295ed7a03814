// The trace's side of an object: what the program gets for the value at a source, and for what C code returns.
//
// Guarantees: `track` adds the guards under which the value means the same in a later call (identity, value, or type
// and then what is read of it), gives fake tensors for tensors and symbolic scalars for numbers that change, and
// remembers the object's source. It reads no contents of containers or instances: ContainerModel and ObjectModel do.
#pragma once

#include "capture/python/object.h"

namespace vesta::capture {

class Trace;

// To track x is to guard its identity or its value.
bool is_guarded_when_tracked(PyObject* x);
// One object for one meaning (a class, module, C function, dtype, ...): a guard on its identity says all.
bool is_singleton(PyObject* x);

class Tracker {
 public:
  explicit Tracker(Trace& trace) : t_(trace) {}

  // The value at a source: what the program gets for it; new, nullptr with an error set.
  PyObject* track(PyObject* x, int source);
  // Guards and remembers the value. False with an error set.
  bool note(PyObject* x, int source) { return static_cast<bool>(Object::take(track(x, source))); }
  // An object that is the same one whenever the existing guards hold: a class's attribute, a constant of the code. New.
  PyObject* track_constant(PyObject* x);
  // The same for an object that may be known already.
  void note_constant(PyObject* x);
  // The source of an object that is the same one in each call. The object is known afterwards.
  int constant_source(PyObject* x);
  // The attributes of an instance, and its items. False: the trace has ended.
  bool track_state(PyObject* instance);
  // x is handed to C code, which reads what x holds. False: the trace has ended, or C code may not read x.
  bool operand(PyObject* x);
  // A result of C code: ended traces and failures of torch end here; fake tensors replace real ones. Takes the
  // reference; nullptr stays so.
  PyObject* finish_call(PyObject* result);
  // The same for a status, -1 being a failure.
  template <class T>
  T finish_status(T status) {
    return status_is_final() ? status : (finish_call(nullptr), T(-1));
  }

 private:
  bool track_slice(PyObject* slice, int source);
  bool track_partial(PyObject* partial, int source);
  // The object that a C function is bound to.
  bool track_self(PyObject* callable);
  bool status_is_final() const;

  Trace& t_;
};

}  // namespace vesta::capture
