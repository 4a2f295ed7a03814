// Conditions that change once along a row, as those of padding and of concatenations do. A CPU's code generator divides
// a row where they change: between two such places they are constants.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>

#include "loops/kernel.h"

namespace vesta::loops {

// A comparison that is `before` up to its place, and the opposite from there on.
struct Turn {
  int64_t place = 0;
  bool before = false;
};

struct Turns {
  std::map<Ref, Turn> conditions;
  std::set<int64_t> places;  // inside the row: above 0 and below its extent
};

// Finds the comparisons that change along `column`. The column is `var` plus terms without it, and runs from 0 to
// extent - 1.
Turns turns_along(std::span<const Instr> instrs, Expr var, Expr column, int64_t extent);

// Whether a row, or a part of this many vectors that a work item computes, is divided at its turns: each part is code
// of its own, with `instrs` instructions or fewer.
bool divides_row(const Turns& turns, int64_t vectors, size_t instrs);

// The value of an index or of an integer constant; nullopt: the instruction is neither.
std::optional<Expr> index_or_constant(const Instr& i);

}  // namespace vesta::loops
