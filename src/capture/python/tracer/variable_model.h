// Names of a frame: local variables, cells, globals, builtins and imports.
//
// Guarantees: a variable of the root frame that the program reads has a source and its guards, one that it does not
// read has none. Globals and cells are read and written as dicts and cells that existed before the trace. An import of
// a module that is loaded is a read of sys.modules; other imports are graph breaks. Functions have the contracts of
// interpreter/operations.h.
#pragma once

#include <vector>

#include "capture/python/frame/frame.h"
#include "capture/python/object.h"

namespace vesta::capture {

class Trace;

class VariableModel {
 public:
  explicit VariableModel(Trace& trace) : t_(trace) {}

  // The root frame's slots as the program sees them; once, before the evaluation. False with an error set.
  bool begin();
  // The slot of the root frame was not written: it holds what the frame has there in each call.
  bool is_entry_value(int slot) const;
  // A cell that an instruction of the root frame has made takes over the argument that inner functions share.
  void move_into_cell(PyObject* cell);

  void storing(Frame* f, int slot);
  bool is_bound(Frame* f, int slot);
  PyObject* load_fast(Frame* f, int slot);
  PyObject* load_cell(Frame* f, int slot);
  int store_cell(Frame* f, int slot, PyObject* value);
  // The source of the cell in a slot, or -1 for one that the trace made.
  int cell_source(Frame* f, int slot);
  PyObject* load_global(Frame* f, PyObject* name);
  int store_global(Frame* f, PyObject* name, PyObject* value);
  PyObject* import_name(Frame* f, PyObject* name, PyObject* fromlist, PyObject* level);
  PyObject* import_from(PyObject* module, PyObject* name);
  // The module of this name in sys.modules, guarded; new. The trace ends if there is none.
  PyObject* loaded_module(PyObject* name);

 private:
  PyObject* missing_module(PyObject* name);
  // The source of the globals or builtins of a frame.
  int namespace_source(Frame* f, PyObject* dict);
  // What a relative import means in this frame; empty if that cannot be said.
  Object absolute_name(Frame* f, PyObject* name, long up);

  Trace& t_;
  std::vector<PyObject*> entry_;         // the root's slots and stack when the trace began; SourceTable keeps them
  std::vector<bool> tracked_, written_;  // by slot of the root
};

}  // namespace vesta::capture
