// A check that held, remembered as facts: words of memory that lead from the roots of the frame to every object that
// the check read. Such a word is the version of a dict, the class of an object, the address of an item in a list, a
// cell, a slot or a part of a function. Where the roots and all words are as they were, a check would read the same
// objects, so that most guards hold without a look at them. A fact never follows a pointer to an object that may have
// died: the facts before it show that the object is alive.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "capture/python/frame/frame.h"
#include "capture/python/guards/cache_plan.h"
#include "capture/python/guards/registers.h"

namespace vesta::capture {

class GuardCache {
 public:
  explicit GuardCache(CachePlan plan);

  bool useful() const { return useful_; }
  const CachePlan& plan() const { return plan_; }
  // The guards to check at every call, in order: those of the plan, and those of objects that leave no sign of a
  // change.
  const std::vector<int>& changing_guards() const { return changing_guards_; }

  // After a check of all guards that held.
  void remember(const std::vector<Source>& sources, const std::vector<Guard>& guards, const Registers& r);
  // The frame has the remembered objects at its roots. To be asked before repeats().
  bool begins_alike(Frame* f) const;
  // All facts hold, the plan's first_sources having been read into `r`: the registers of all sources that stay are
  // registers().
  bool repeats(const Registers& r) const;
  const std::vector<PyObject*>& registers() const { return registers_; }
  // Another number after each remember(); never 0.
  uint64_t state() const { return state_; }

 private:
  struct Root {
    SourceKind kind;
    int index;  // of a local, or of a source that is compared
    PyObject* value;
  };
  struct Fact {
    const uint64_t* place;
    uint64_t value;
  };

  void always_check(int guard);
  template <class Word>
    requires(std::is_pointer_v<Word> || std::is_same_v<Word, Py_ssize_t>)
  void is(const Word* place, Word value) {
    facts_.push_back({reinterpret_cast<const uint64_t*>(place), std::bit_cast<uint64_t>(value)});
  }
  void is_of_size(PyObject* x) { is(&reinterpret_cast<PyVarObject*>(x)->ob_size, Py_SIZE(x)); }
  // The fact by which a source gives `x` again as long as its parent is the same. False: there is none.
  bool add_fact(const Source& s, PyObject* parent, PyObject* x);
  bool add_version(PyObject* dict);

  const CachePlan plan_;
  std::vector<int> changing_guards_;
  std::vector<Root> roots_;
  std::vector<Fact> facts_;  // each place is alive if the facts before it hold
  std::vector<PyObject*> registers_;
  bool useful_, valid_ = false;
  uint64_t state_ = 1;
  int remembered_ = 0;
  mutable int64_t repeats_ = 0;
};

}  // namespace vesta::capture
