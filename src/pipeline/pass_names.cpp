#include "graph/passes/pass.h"
#include "vesta/passes.h"

namespace vesta {

std::vector<std::string> passes() {
  std::vector<std::string> names;
  for (const graph::PassRow& row : graph::pass_table()) names.emplace_back(row.name);
  return names;
}

}  // namespace vesta
