#include "trace/ops/rows.h"

#include <string_view>
#include <unordered_map>

namespace vesta::trace {

const OperatorRow* find_operator_row(const std::string& name) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const OperatorRow*> t;
    for (auto rows : {activation_rows(), attention_rows(), contents_rows(), copy_rows(), factory_rows(),
                      forward_gradient_rows(), indexing_rows(), linear_algebra_rows(), normalization_rows(),
                      optimizer_rows(), pooling_rows(), upsampling_rows(), view_rows()}) {
      for (const OperatorRow& row : rows)
        VESTA_CHECK(t.emplace(row.name, &row).second, "two rows for operator {}", row.name);
    }
    return t;
  }();
  const auto it = table.find(name);
  return it == table.end() ? nullptr : it->second;
}

}  // namespace vesta::trace
