// A check that held, in a form that is quicker to repeat. What it read hangs on the objects at the roots; as long as
// the words of memory that lead from them to everything else are the same, so is what would be read now. Such a word is
// the version of a dict, the class of an object, the place of an item in a list, a cell, a slot or a part of a
// function.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "capture/python/guards/guard.h"

namespace vesta::capture {

class GuardCache {
 public:
  // What is worth remembering of a program. `loaded`: by source, whether the program reads it at all.
  GuardCache(const std::vector<Source>& sources, const std::vector<Guard>& guards, const std::vector<int>& written,
             const std::vector<bool>& loaded);

  bool useful() const { return useful_; }
  // After a check that held.
  void remember(const std::vector<Source>& sources, const std::vector<Guard>& guards, const Registers& r);
  // Sources that facts compare, and that each check reads before: an object in *args or **kwargs.
  const std::vector<int>& first_sources() const { return first_sources_; }
  // The frame has the same objects at its roots as then. To be asked before any other question.
  bool begins_alike(Frame* f) const;
  // first_sources() are read, and all that hangs on the roots is as it was then: the registers of all sources that stay
  // are those of then.
  bool repeats(const Registers& r) const;
  const std::vector<PyObject*>& registers() const { return registers_; }
  // Another number after each remember(); never 0.
  uint64_t state() const { return state_; }
  // Of the sources, and of the guards, those to read and to check at every call all the same, in order.
  const std::vector<int>& changing_sources() const { return changing_sources_; }
  const std::vector<int>& changing_guards() const { return changing_guards_; }

 private:
  // How a source is known to give what it gave.
  enum Stay : uint8_t {
    Changes,    // it is not
    SamePlace,  // an object at the same address: perhaps another one, if the first has gone
    SameObject  // the same object: a dict that was not written since still holds it
  };
  struct Root {
    SourceKind kind;
    int index;  // of a local, or of a source that is compared
    PyObject* value;
  };
  struct Fact {
    const uint64_t* place;
    uint64_t value;
  };
  struct Build;

  void choose_sources(const std::vector<Source>& sources, const Build& b);
  void choose_guards(const std::vector<Guard>& guards, const Build& b);
  bool is_read_first(const std::vector<Source>& sources, int source, const Build& b) const;
  void read_first(const std::vector<Source>& sources, int source);
  void always_check(int guard);
  template <class Word>
    requires(std::is_pointer_v<Word> || std::is_same_v<Word, Py_ssize_t>)
  void is(const Word* place, Word value) {
    facts_.push_back({reinterpret_cast<const uint64_t*>(place), std::bit_cast<uint64_t>(value)});
  }
  void is_of_size(PyObject* x);
  // The fact by which a source is as it was, where its parent is. False: there is none.
  bool add_fact(const Source& s, PyObject* parent, PyObject* x);
  bool add_version(PyObject* dict);

  std::vector<Stay> stays_;
  std::vector<char> typed_;  // by source: its class is a fact
  std::vector<Root> roots_;
  std::vector<Fact> facts_;  // in an order in which each place is alive if the facts before it hold
  std::vector<PyObject*> registers_;
  std::vector<int> first_sources_, changing_sources_, changing_guards_;
  bool useful_ = false, valid_ = false;
  uint64_t state_ = 1;
  int remembered_ = 0;
  mutable int64_t repeats_ = 0;
};

}  // namespace vesta::capture
