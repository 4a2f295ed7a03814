// The adjacent elements of a thread: which of its accesses are one wide access, and where rows keep them.
#pragma once

#include <map>

#include "codegen/cuda/reduce.h"

namespace vesta::codegen {

class ElementLines : protected ReductionLines {
 protected:
  explicit ElementLines(const loops::Kernel& k) : ReductionLines(k) {}

  // Computes the variables of all ranges of one kind, or of these ranges, from their joint position. The last range
  // varies fastest.
  void decode(const std::string& position, loops::RangeKind kind);
  void decode(const std::string& position, const std::vector<size_t>& ranges);

  // The neighbours at an index of a buffer, as one value.
  std::string pack_at(const loops::Instr& i) const;
  // Whether neighbours along the range are adjacent and begin where one access may.
  bool is_aligned(const loops::Instr& i, const loops::Range& range) const;
  // The range of which a thread processes several elements at once in this stage; nullptr: one element at a time.
  const loops::Range* taken_together(const loops::Stage& s) const;
  // Whether all of them are accessed at once or in a few wide accesses. A mask common to all of them is computed
  // before.
  bool is_packed(const loops::Instr& i, const loops::Range& range, const loops::Stage& s) const;
  // Finds the values of the stage that differ between a thread's elements.
  void look_at_elements(const loops::Stage& s, const loops::Range& range);

  // What a row in shared memory keeps as it is loaded is copied there by the memory system, all of a thread's elements
  // at once. The thread reads it there. `loop`: how a loop over the row begins.
  void copy_rows(const loops::Stage& s, const std::string& loop);
  // Where the thread reads the elements of a load that copy_rows() has copied; empty: in memory.
  std::string copied_place(loops::Ref load) const;
  bool is_copied_row(loops::Ref store) const;
  // The position in a row in shared memory.
  std::string_view kept_at() const { return t_.parts > 1 ? "own" : "at"; }

  std::vector<bool> varies_;  // by instruction of the current stage

 private:
  // Whether the index contains an indirect index that differs between a thread's elements.
  bool names_varying_place(Expr index) const;
  // Whether the index contains a place that this loop computes.
  bool names_place_of(const loops::Stage& s, Expr index) const;

  std::map<loops::Ref, loops::Ref> copied_;  // loads of the current loop, with what keeps them
};

}  // namespace vesta::codegen
