#include "runtime/extern_call.h"

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

}  // namespace vesta::runtime
