// Whether the rows of a pointwise kernel are computed one by one, or many of them column by column.
#pragma once

#include <vector>

#include "loops/dag.h"

namespace vesta::schedule {

// Whether rows along range v gain nothing if many of them are computed together. Values that depend on v alone are
// computed once for all of them there. Conditions that change once along v (loops/turns.h) cost nothing in each row:
// the code generator divides rows where they change.
bool rows_are_apart(const loops::Dag& dag, const std::vector<loops::Range>& ranges, size_t v, int64_t lanes);

}  // namespace vesta::schedule
