#include "interop/find_operator.h"

#include "base/check.h"

namespace vesta {

c10::OperatorHandle find_operator(const std::string& op) {
  // "aten::add.Tensor": namespace::name.overload. A name contains no dot.
  const size_t colons = op.find("::");
  const size_t dot = op.find('.', colons == std::string::npos ? 0 : colons);
  const c10::OperatorName name(op.substr(0, dot), dot == std::string::npos ? "" : op.substr(dot + 1));
  const auto handle = c10::Dispatcher::singleton().findSchema(name);
  if (!handle) VESTA_UNSUPPORTED("this process has no operator {}", op);
  return *handle;
}

}  // namespace vesta
