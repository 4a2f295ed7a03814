// Without LLVM kernels are interpreted: exact and slow, for tests. available() is false, so that the schedule prefers
// extern calls.
#include "base/digest.h"
#include "codegen/codegen.h"

namespace vesta::codegen {

bool available(const Target&) { return false; }

const std::string& fingerprint(const Target&) {
  static const std::string name = "interpreter";
  return name;
}

std::vector<Result> compile(const std::vector<Request>& requests, const Target&, const CompileOptions&) {
  std::vector<Result> result;
  for (const Request& r : requests) {
    result.push_back({std::make_shared<machine::Object>(
        machine::Object{machine::Form::Text, "vesta_text_" + digest({r.text}), r.text})});
  }
  return result;
}

}  // namespace vesta::codegen
