#include "capture/python/breaks/breaks.h"

#include <vector>

#include "base/check.h"
#include "capture/python/breaks/families.h"

namespace vesta::capture {
namespace {

std::vector<BreakRow> all_rows() {
  std::vector<BreakRow> rows;
  for (std::span<const BreakRow> family :
       {calls_rows(), classes_rows(), attributes_rows(), imports_rows(), numbers_rows(), containers_rows(),
        tensors_rows(), states_rows(), exits_rows(), frames_rows()})
    rows.insert(rows.end(), family.begin(), family.end());
  for (size_t i = 0; i < rows.size(); ++i)
    VESTA_CHECK(rows[i].id == static_cast<Break>(i), "the row {} is out of order", rows[i].name);
  return rows;
}

}  // namespace

std::span<const BreakRow> break_rows() {
  static const std::vector<BreakRow> rows = all_rows();
  return rows;
}

const BreakRow& row(Break id) { return break_rows()[static_cast<size_t>(id)]; }

Reason reason_for(Break id, std::string_view first, std::string_view second) {
  return {id, fmt::format(fmt::runtime(row(id).text), first, second)};
}

}  // namespace vesta::capture
