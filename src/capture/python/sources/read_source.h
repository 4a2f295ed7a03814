// Reads a source: from the roots of a frame, or from the object that its parent source gave. No Python code of the
// program runs, no error is left set, and an object that is not there is nullptr.
#pragma once

#include "capture/python/frame/frame.h"
#include "capture/python/object.h"
#include "capture/python/sources/source.h"

namespace vesta::capture {

// Where sources begin: a frame, or what a frame of the function would have.
struct Roots {
  PyObject* const* slots;
  PyObject *function, *globals, *builtins;
};
Roots roots_of(Frame* f);

// Borrowed. `parent` and `other`: what these sources of `s` gave. `*computed` owns the result of
// SourceKind::Computed, which no other object owns; other kinds leave it alone.
PyObject* read_source(const Source& s, const Roots& roots, PyObject* parent, PyObject* other, Object* computed);

}  // namespace vesta::capture
