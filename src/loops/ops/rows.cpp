#include "loops/ops/rows.h"

#include "base/check.h"
#include "base/split.h"

namespace vesta::loops {

const LoweringRow* find_lowering(const graph::Op& op) {
  static const auto table = [] {
    std::unordered_map<const graph::Op*, const LoweringRow*> t;
    for (auto rows :
         {factory_lowerings(), indexing_lowerings(), joining_lowerings(), matmul_lowerings(), moving_lowerings(),
          padding_lowerings(), pooling_lowerings(), scan_lowerings(), scatter_lowerings(), upsample_lowerings()}) {
      for (const LoweringRow& r : rows)
        for (const std::string_view name : split(r.names, ' '))
          VESTA_CHECK(t.emplace(&graph::get_op(name), &r).second, "two lowerings for operator {}", name);
    }
    return t;
  }();
  const auto it = table.find(&op);
  return it == table.end() ? nullptr : it->second;
}

}  // namespace vesta::loops
