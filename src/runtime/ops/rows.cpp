#include "runtime/ops/rows.h"

#include <string_view>
#include <unordered_map>

namespace vesta::runtime {

IntoFn find_direct_call(const std::string& op) {
  static const auto table = [] {
    std::unordered_map<std::string_view, IntoFn> t;
    for (auto rows : {binary_direct_calls(), joining_direct_calls(), matmul_direct_calls()})
      for (const DirectCallRow& row : rows) t.emplace(row.name, row.into);
    return t;
  }();
  const auto it = table.find(op);
  return it == table.end() ? nullptr : it->second;
}

}  // namespace vesta::runtime
