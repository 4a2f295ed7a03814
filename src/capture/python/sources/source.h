// Sources: how the frame of a segment reaches an object that existed before. A guard program reads sources again at
// every call (read_source.h); no Python code of the program runs for that.
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
  Constant,      // `key` itself: the code or other guards fix its identity
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
  Gradient,      // of the parent, a leaf tensor of the class `key`, which is plain data: what kGradientNames[index] is
  Referent,      // of the parent, a weakref.ref; None if it is gone
  Flag,          // the result, True or False, of the parent, a C function without arguments
  ContextValue,  // of the parent, a contextvars.ContextVar, in the thread's context
  Cached,        // the result that the parent, made by functools.lru_cache, has for `key` (cached_result.h)
  Computed,      // the operation `index` on the numbers `parent` and `other`, if any (compute.h); `key`: its function
};

enum GradientPart : int { kGradient, kHooks, kHooksAfter };
constexpr const char* kGradientNames[] = {"grad", "_backward_hooks", "_post_accumulate_grad_hooks"};

struct Source {
  SourceKind kind;
  int parent = -1;
  int index = 0;
  PyObject* key = nullptr;  // kept by the table
  int other = -1;
};

// A str as text of at most `most` bytes; "?" if there is none. No error is set.
std::string shortened(const Object& text, size_t most);

class SourceTable {
 public:
  // The number of this source, the same each time.
  int add(SourceKind kind, int parent, int index = 0, PyObject* key = nullptr, int other = -1);
  // Of the item of a list or tuple; of what a dict has under a key.
  int item(int sequence, Py_ssize_t index) { return add(SourceKind::SequenceItem, sequence, static_cast<int>(index)); }
  int value(int dict, PyObject* key) { return add(SourceKind::DictValue, dict, 0, key); }
  int constant(PyObject* x) { return add(SourceKind::Constant, -1, 0, x); }
  const Source& operator[](int id) const { return sources_[static_cast<size_t>(id)]; }
  int size() const { return static_cast<int>(sources_.size()); }

  // The source by which an object is known, or -1.
  int find(PyObject* object) const { return found_in(known_, object, -1); }
  // The first source of an object stays its source.
  void know(PyObject* object, int source);

  // The source as a user writes it. `code`: of the frame, for the names of its variables. Texts are kept: the text of
  // `model` is part of all texts below it.
  const std::string& text(int id, PyObject* code) const;
  // The text of a dict's item; of an attribute, if the dict is an object's.
  std::string item_text(int dict, PyObject* key, PyObject* code) const;

  const std::vector<Source>& all() const { return sources_; }
  // Keeps an object alive as long as the table; returns it.
  PyObject* keep(PyObject* object);
  // All known objects, with their sources.
  const std::unordered_map<PyObject*, int>& known() const { return known_; }
  // A table of the same sources that keeps their keys alive, but not the objects that a trace found in them.
  SourceTable places() const;
  std::vector<Object>& kept() { return kept_; }

 private:
  std::vector<Source> sources_;
  std::unordered_map<std::tuple<SourceKind, int, int, PyObject*, int>, int, PlaceHash> ids_;
  std::unordered_map<PyObject*, int> known_;
  std::vector<Object> kept_;
  mutable std::unordered_map<int, std::string> texts_;
  mutable PyObject* texts_are_of_ = nullptr;  // the code; compared, never used

  std::string make_text(int id, PyObject* code) const;
};

}  // namespace vesta::capture
