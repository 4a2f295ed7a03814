#include "pipeline/kernel_name.h"

namespace vesta::pipeline {

std::string kernel_name(const std::vector<std::string>& ops) {
  std::string name;
  for (const std::string& op : ops) {
    if (name.size() > 60) break;
    const size_t start = op.rfind(':') + 1;
    name += (name.empty() ? "" : "_") + op.substr(start, op.find('.', start) - start);
  }
  return name;
}

}  // namespace vesta::pipeline
