// How an object that existed before a segment is reached from the segment's frame. A source is read again at every call
// by plain loads: no code of the user's runs.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "capture/python/object.h"
#include "capture/python/place_hash.h"

namespace vesta::capture {

enum class SourceKind : uint8_t {
  Local,         // slot `index` of the frame: a local variable, a cell, or an entry of the value stack
  Function,      // the frame's function object
  Globals,       // the frame's globals
  Builtins,      // the frame's builtins
  Constant,      // `key` itself: an object whose identity other guards, or the code, fix
  InstanceDict,  // __dict__ of the parent
  DictValue,     // parent[key] of a dict
  DictKey,       // key number `index` of a dict, in order
  SequenceItem,  // item `index` of a list or tuple
  CellContents,  // of the parent, a cell
  ClosureCell,   // cell `index` of the parent, a function
  Defaults,      // __defaults__ of the parent, a function
  KwDefaults,    // __kwdefaults__ of the parent, a function
  Member,        // the object at byte `index` of the parent: a __slots__ entry
  MethodSelf,    // __self__ and __func__ of a bound method
  MethodFunction,
  PartialFunction,  // func, args and keywords of a functools.partial
  PartialArguments,
  PartialKeywords,
  Referent,      // of the parent, a weakref.ref; None if it is gone
  Flag,          // what the parent, a C function of no arguments, says: True or False
  ContextValue,  // of the parent, a contextvars.ContextVar, in the thread's context
  Cached,        // what the parent, a function of functools.lru_cache, keeps under `key` (cached_result.h)
  Computed,  // from the numbers `parent` and `other`, if any, by the operation `index` (compute.h); `key`: a function
};

struct Source {
  SourceKind kind;
  int parent = -1;
  int index = 0;
  PyObject* key = nullptr;  // kept by the table
  int other = -1;
};

class SourceTable {
 public:
  // The one id of this source.
  int add(SourceKind kind, int parent, int index = 0, PyObject* key = nullptr, int other = -1);
  const Source& operator[](int id) const { return sources_[static_cast<size_t>(id)]; }
  int size() const { return static_cast<int>(sources_.size()); }

  // The source by which an object is known, or -1.
  int find(PyObject* object) const;
  // The first source an object was reached by stays its source.
  void know(PyObject* object, int source);

  // As a user would write it; `code`: the frame's, for the names of its slots. Made once: every place below `model` has
  // the text of `model` in its own.
  const std::string& text(int id, PyObject* code) const;
  // The same of what a dict has under a key: an attribute, if the dict is an object's.
  std::string item_text(int dict, PyObject* key, PyObject* code) const;

  const std::vector<Source>& all() const { return sources_; }
  // Alive as long as the table.
  PyObject* keep(PyObject* object);
  // Every object that is known, with its source.
  const std::unordered_map<PyObject*, int>& known() const { return known_; }
  // The sources alone: it keeps their keys alive, not the objects that a trace found in them.
  SourceTable places() const;
  std::vector<Object>& kept() { return kept_; }
  const std::vector<Object>& kept() const { return kept_; }

 private:
  std::vector<Source> sources_;
  std::unordered_map<std::tuple<SourceKind, int, int, PyObject*, int>, int, PlaceHash> ids_;
  std::unordered_map<PyObject*, int> known_;
  std::vector<Object> kept_;
  mutable std::unordered_map<int, std::string> texts_;
  mutable PyObject* texts_are_of_ = nullptr;  // the code, for comparison alone

  std::string make_text(int id, PyObject* code) const;
};

}  // namespace vesta::capture
