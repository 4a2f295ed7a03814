// Takes the place of the code generator: the plan is made as for machine code, the kernels stay text, which is
// interpreted.
#include "base/digest.h"
#include "codegen/codegen.h"

namespace vesta::codegen {

bool available(const Target&, std::string*) { return true; }

const std::string& fingerprint(const Target&) {
  static const std::string name = "kernels as text";
  return name;
}

std::vector<Result> compile(const std::vector<Request>& requests, const Target&, const CompileOptions&) {
  std::vector<Result> out;
  for (const Request& r : requests)
    out.push_back({std::make_shared<machine::Object>(
        machine::Object{machine::Form::Text, "vesta_text_" + digest({r.text}), r.text})});
  return out;
}

}  // namespace vesta::codegen
