// Lists, tuples, dicts, sets and deques: what is read of them, and the writes to them.
//
// Guarantees: lengths, keys, members and items that are read become guards on what the container had before the trace.
// Each write is in the undo log before it happens, and what it depends on is guarded. ContainerItems does what
// instructions do to containers, by these reads and writes; undo_log.h takes the writes back; epilogue/ does them
// again.
#pragma once

#include <optional>
#include <unordered_map>

#include "capture/python/tracer/undo_log.h"

namespace vesta::capture {

class Trace;

class ContainerModel {
 public:
  explicit ContainerModel(Trace& trace) : t_(trace) {}

  // False, from each function that returns bool and says nothing else: the trace has ended, or an error is set.
  bool track_length(PyObject* container);
  // All items become known, for C code that reads them as they are; `depth`: containers in containers too.
  bool track_contents(PyObject* container, int depth);
  // Whether contents are being tracked. C code reads them, so that no number among them may be symbolic.
  bool is_exact() const { return exact_; }
  // Whether an item of a list or tuple may be read as it is: the trace made the container, or a
  // write to it has guarded all items.
  bool has_known_items(PyObject* container, PyObject* key) const;
  // For instructions that pass the items of a tuple, list or dict on and read none: a copy, whose numbers may be
  // symbols. Other objects are read by C code. Empty: the trace has ended, or an error is set.
  Object unpacked(PyObject* container);
  // What a dict has under a key; new, nullptr with an error set. Nothing where it has none. `source`: of the dict, -1
  // for a new one.
  std::optional<PyObject*> read_dict(PyObject* dict, int source, PyObject* key);

  // Called before a container is written: it goes into the undo log, and what the write depends on is guarded.
  bool before_write(PyObject* container, UndoLog::Writes kind);
  // The same for one key of a dict.
  bool before_write_key(PyObject* dict, PyObject* key, bool deletes);

 private:
  // The container as it was before the trace wrote to it.
  Object original(PyObject* container);
  bool track_sequence(PyObject* x, PyObject* before, int source, int depth);
  bool track_dict(PyObject* before, int source, int depth);
  bool track_items(PyObject* dict_before, int source);
  bool track_set(PyObject* before, int source);
  Object unpacked_sequence(PyObject* x, int source);
  Object unpacked_dict(PyObject* x, int source, PyObject* keys);

  Trace& t_;
  std::unordered_map<PyObject*, int> depths_;  // to which the contents are known; SourceTable keeps the containers
  bool exact_ = false;
};

}  // namespace vesta::capture
