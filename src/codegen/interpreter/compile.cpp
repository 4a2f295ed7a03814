// Kernels that are interpreted, exact but slow, for targets that no other generator serves. Their code is their text.
#include "base/digest.h"
#include "codegen/generator.h"

namespace vesta::codegen {

bool interprets(const Target&, std::string*) { return true; }

const std::string& interpreter_fingerprint(const Target&) {
  static const std::string name = "interpreter";
  return name;
}

std::vector<Result> compile_to_text(const std::vector<Request>& requests, const Target&, const CompileOptions&) {
  std::vector<Result> result;
  for (const Request& r : requests) {
    result.push_back({std::make_shared<machine::Object>(
        machine::Object{machine::Form::Text, "vesta_text_" + digest({r.text}), r.text})});
  }
  return result;
}

}  // namespace vesta::codegen
