#include "runtime/extern_call.h"

#include "base/check.h"

namespace vesta::runtime {

bool is_custom(const std::string& op) { return !op.starts_with("aten::"); }

bool may_draw(const c10::OperatorHandle& op, const artifact::Extern& call) {
  if (is_custom(call.op)) return true;
  if (!op.hasTag(at::Tag::nondeterministic_seeded)) return false;
  const std::vector<c10::Argument>& parameters = op.schema().arguments();
  for (size_t i = 0; i < parameters.size() && i < call.args.size(); ++i) {
    const std::string& name = parameters[i].name();
    const auto* share = std::get_if<double>(&call.args[i].value);
    if (share && *share == 0 && (name == "dropout" || name == "dropout_p")) return false;
    const auto* on = std::get_if<bool>(&call.args[i].value);
    if (on && !*on && (name == "train" || name == "training")) return false;
  }
  return true;
}

c10::OperatorHandle find_operator(const std::string& op) {
  // "aten::add.Tensor": namespace::name.overload. A name contains no dot.
  const size_t colons = op.find("::");
  const size_t dot = op.find('.', colons == std::string::npos ? 0 : colons);
  const c10::OperatorName name(op.substr(0, dot), dot == std::string::npos ? "" : op.substr(dot + 1));
  const auto handle = c10::Dispatcher::singleton().findSchema(name);
  if (!handle) VESTA_UNSUPPORTED("this process has no operator {}", op);
  return *handle;
}

}  // namespace vesta::runtime
