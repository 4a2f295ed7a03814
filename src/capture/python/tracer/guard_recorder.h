// What a trace reads becomes a guard: each fact once, with the instruction that asked for it.
//
// Guarantees: a fact that is added twice is one guard; objects that a guard compares with live as long as the trace.
// The recorder does not check guards (guards/guard.h does) and does not decide what is read (the other rooms do).
#pragma once

#include <initializer_list>
#include <string>
#include <unordered_set>
#include <vector>

#include "capture/python/guards/guard.h"
#include "capture/python/place_hash.h"

namespace vesta::capture {

class Trace;

class GuardRecorder {
 public:
  explicit GuardRecorder(Trace& trace) : t_(trace) {}

  void add(Check check, int source, PyObject* expected = nullptr, int64_t number = 0);
  // `x` is the object that its source has now. Nothing is added for constants and for objects without a source.
  void add_identity(PyObject* x);
  // What a class finds under a name; without a name: that the class is this one.
  void add_class(PyTypeObject* type, PyObject* name = nullptr);
  // Everything that is in a class's dict.
  void add_class_dict(PyTypeObject* type);
  // The special methods by which operators and torch's C code treat a tensor: those that its class has, and those it
  // lacks.
  void add_special_methods(PyTypeObject* type);
  // Special methods by which C code treats an object of a Python class: those that it has, and those it lacks.
  void add_methods(PyObject* x, std::initializer_list<std::string> names);
  // How a class, or each class of a tuple, answers isinstance().
  void add_class_check(PyObject* classes);
  // The address of x is used (id(), a hash, a text). False (the trace has ended): x is new, its address means nothing.
  bool add_address(PyObject* x);
  // The same for each object whose address a text names, as in "<C object at 0x...>".
  bool add_addresses_in(PyObject* text);

  // How reports name a source: "self.layers[0].weight".
  std::string source_text(int source) const;
  // The source's key in ValueHistory: two constants may have one text, and have two keys.
  std::string history_key(int source) const;

  const std::vector<Guard>& guards() const { return guards_; }
  const std::vector<ClassLookup>& lookups() const { return lookups_; }

 private:
  Trace& t_;
  std::vector<Guard> guards_;
  std::vector<ClassLookup> lookups_;
  std::unordered_set<std::tuple<Check, int, PyObject*, int64_t>, PlaceHash> added_;
  std::unordered_set<std::tuple<PyTypeObject*, PyObject*>, PlaceHash> looked_up_;
  std::unordered_set<PyTypeObject*> tensor_classes_, class_dicts_;
};

}  // namespace vesta::capture
