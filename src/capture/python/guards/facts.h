// The facts of a guard cache: words of memory, each with the value that it had. They are checked in order, and the
// facts before a fact show that its object is alive.
//
// A model has most of its facts about dicts that nobody writes, and about the classes and dicts of the objects in them.
// From Python 3.12 on writes to these are noted: as long as none was, their words are not read.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "capture/python/sources/source.h"
#include "capture/python/values/dict_version.h"

namespace vesta::capture {

class Facts {
 public:
  struct DictVersion {
    int source;  // of the dict
    const uint64_t* place;
    uint64_t value;
  };
  // When a fact has to be compared. Each one includes those before it.
  enum When : uint8_t {
    Always,
    PartsChanged,  // after any object got another class or dict, see values/object_parts.h
    DictsChanged   // after a write to a watched dict
  };

  // Forgets all facts. `dicts`: how many is_version() will be called for.
  void begin(size_t dicts);
  // Between the events that `when` names, the fact holds if the facts before it hold.
  template <class Word>
    requires(std::is_pointer_v<Word> || std::is_same_v<Word, Py_ssize_t>)
  void is(const Word* place, Word value, When when = Always) {
    add({reinterpret_cast<const uint64_t*>(place), std::bit_cast<uint64_t>(value)}, when);
  }
  // When to compare the class of an object, or its dict. `stays`: as long as no watched dict changes, no other object
  // can have its address.
  When after_parts(PyObject* x, bool stays) const;
  void is_of_size(PyObject* x) { is(&reinterpret_cast<PyVarObject*>(x)->ob_size, Py_SIZE(x)); }
  // Nobody writes to the dict of this source. False: Python has no versions for it.
  bool is_version(int source, PyObject* dict);
  // The fact by which a source gives `x` again as long as its parent is the same; the value of a dict is looked up.
  // `parent_stays`: as in after_parts().
  // False: there is none.
  bool is_read(int source, const Source& s, PyObject* parent, bool parent_stays, PyObject* x);

  // Drops what is only needed while facts are noted.
  void finish();

  const std::vector<DictVersion>& versions() const { return versions_; }
  // `registers`: what the sources gave when the facts were noted.
  bool hold(const std::vector<Source>& sources, const std::vector<PyObject*>& registers) const;

 private:
  struct Fact {
    const uint64_t* place;
    uint64_t value;
  };
  struct Lookup {
    size_t facts;  // that hold before it is made
    int source;
  };
  struct List {
    std::vector<Fact> words;
    std::vector<Lookup> lookups;
  };
  // What has been noted of writes.
  struct Noted {
    uint64_t dicts = 0, parts = 0;
  };
  void add(const Fact& fact, When when);
  Noted noted() const;
  static bool hold(const List& list, const std::vector<Source>& sources, const std::vector<PyObject*>& registers);

  std::array<List, 3> lists_;  // by When: the facts to compare then
  std::unordered_set<const uint64_t*> known_;
  std::vector<DictVersion> versions_;
  DictsWatch watch_;
  bool watches_ = false;  // all dicts of versions_ are watched
  mutable Noted held_;    // when all facts held
};

}  // namespace vesta::capture
