// A check that held, remembered as facts: words of memory that lead from the roots of the frame to every object that
// the check read. Such a word is the version of a dict, the class of an object, the address of an item in a list, a
// cell, a slot or a part of a function. Where the roots and all words are as they were, a check would read the same
// objects, so that most guards hold without a look at them. A fact never follows a pointer to an object that may have
// died: the facts before it show that the object is alive.
//
// A dict that is written between calls, as the globals of a script are, is unsteady: its values are looked up at each
// call, and other writes to it do not matter.
#pragma once

#include <cstdint>
#include <vector>

#include "capture/python/frame/frame.h"
#include "capture/python/guards/cache_plan.h"
#include "capture/python/guards/facts.h"
#include "capture/python/guards/registers.h"

namespace vesta::capture {

class GuardCache {
 public:
  explicit GuardCache(CachePlan plan);

  bool useful() const { return useful_; }
  // Another one after a remember() that finds an unsteady dict.
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
  bool repeats(const std::vector<Source>& sources, const Registers& r) const;
  const std::vector<PyObject*>& registers() const { return registers_; }
  // Another number after each remember(); never 0.
  uint64_t state() const { return state_; }

 private:
  struct Root {
    SourceKind kind;
    int index;  // of a local, or of a source that is compared
    PyObject* value;
  };

  void always_check(int guard);
  void find_unsteady_dicts(const std::vector<Source>& sources, const std::vector<Guard>& guards, const Registers& r);
  bool find_facts(const std::vector<Source>& sources, const std::vector<Guard>& guards, const Registers& r);

  CachePlan plan_;
  std::vector<int> changing_guards_;
  std::vector<Root> roots_;
  Facts facts_;
  std::vector<uint8_t> writes_;  // by source: how often this dict was found written between two checks that held
  std::vector<PyObject*> registers_;
  bool useful_, valid_ = false;
  uint64_t state_ = 1;
  int remembered_ = 0;
  mutable int64_t repeats_ = 0;
};

}  // namespace vesta::capture
