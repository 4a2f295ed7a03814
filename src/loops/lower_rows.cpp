#include "loops/lower_rows.h"

#include <string_view>

namespace vesta::loops {

const ElementRow* find_element_row(const graph::Node& node) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const ElementRow*> t;
    for (auto rows : {factory_elements(), gather_elements(), joining_elements(), moving_elements(), resample_elements(),
                      window_elements()}) {
      for (const ElementRow& r : rows) t.emplace(r.name, &r);
    }
    return t;
  }();
  auto it = table.find(node.op->name);
  return it == table.end() ? nullptr : it->second;
}

}  // namespace vesta::loops
