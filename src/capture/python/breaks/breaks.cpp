#include "capture/python/breaks/breaks.h"

#include <fmt/format.h>

#include <vector>

#include "base/check.h"
#include "capture/python/breaks/families.h"

namespace vesta::capture {
namespace {

std::vector<BreakRow> all_rows() {
  std::vector<BreakRow> rows;
  for (const BreakRow& r : calls_rows()) rows.push_back(r);
  for (const BreakRow& r : classes_rows()) rows.push_back(r);
  for (const BreakRow& r : attributes_rows()) rows.push_back(r);
  for (const BreakRow& r : imports_rows()) rows.push_back(r);
  for (const BreakRow& r : numbers_rows()) rows.push_back(r);
  for (const BreakRow& r : iterators_rows()) rows.push_back(r);
  for (const BreakRow& r : containers_rows()) rows.push_back(r);
  for (const BreakRow& r : tensors_rows()) rows.push_back(r);
  for (const BreakRow& r : states_rows()) rows.push_back(r);
  for (const BreakRow& r : exits_rows()) rows.push_back(r);
  for (const BreakRow& r : frames_rows()) rows.push_back(r);
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
