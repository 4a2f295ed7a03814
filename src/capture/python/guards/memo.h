// A check that held, in a form that is quicker to repeat: as long as the same objects are at the roots and no dict on
// the way was written, what was read from them then is what would be read now. Lists, sets, cells, slots and classes
// are looked at every time.
#pragma once

#include <cstdint>
#include <vector>

#include "capture/python/guards/guard.h"

namespace vesta::capture {

class Memo {
 public:
  // What is worth remembering of a program: which sources stay as long as dicts are not written.
  Memo(const std::vector<Source>& sources, const std::vector<Guard>& guards, const std::vector<int>& written);

  bool useful() const { return useful_; }
  // After a check that held.
  void remember(const std::vector<Source>& sources, const std::vector<Guard>& guards, const Registers& r);
  // The same objects and dicts as then: the registers of all sources that stay are those of then.
  bool repeats(Frame* f) const;
  const std::vector<PyObject*>& registers() const { return registers_; }
  // Another number after each remember(); never 0.
  uint64_t state() const { return state_; }
  // Of the sources, and of the guards, those to read and to check at every call all the same, in order.
  const std::vector<int>& changing_sources() const { return changing_sources_; }
  const std::vector<int>& changing_guards() const { return changing_guards_; }

 private:
  struct Fact {
    enum Kind : uint8_t { Local, Function, Globals, Builtins, Class, Place, Version } kind;
    int slot;
    const void* place;
    uint64_t value;
  };
  std::vector<char> stays_;
  std::vector<Fact> facts_;
  std::vector<PyObject*> registers_;
  std::vector<int> changing_sources_, changing_guards_;
  bool useful_ = false, valid_ = false;
  uint64_t state_ = 1;
  int remembered_ = 0;
  mutable int64_t repeats_ = 0;
};

}  // namespace vesta::capture
