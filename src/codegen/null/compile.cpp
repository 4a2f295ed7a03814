// Without LLVM kernels are interpreted: exact and slow, for tests. available() is false, so that the schedule prefers
// extern calls.
#include "base/digest.h"
#include "codegen/codegen.h"

namespace vesta::codegen {

const Target& host_target() {
  static const Target target{"none", 16, "interpreter"};
  return target;
}

bool available() { return false; }

std::vector<Result> compile(const std::vector<Request>& requests, const CompileOptions&) {
  std::vector<Result> result;
  for (const Request& r : requests) {
    result.push_back({std::make_shared<machine::Object>(
        machine::Object{machine::Form::Text, "vesta_text_" + digest({r.text}), r.text})});
  }
  return result;
}

}  // namespace vesta::codegen
