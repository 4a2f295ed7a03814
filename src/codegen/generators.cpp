#include "base/check.h"
#include "codegen/generator.h"

namespace vesta::codegen {
namespace {

constexpr Generator kGenerators[] = {
#ifdef VESTA_WITH_LLVM
    {DeviceType::CPU, llvm_available, llvm_fingerprint, compile_with_llvm},
#endif
    {DeviceType::CUDA, nvrtc_available, nvrtc_fingerprint, compile_with_nvrtc},
};

// nullptr: no row serves the target.
const Generator* generator_for(const Target& target, std::string* why = nullptr) {
  if (why) *why = "there is no code generator for " + to_string(Device{target.device});
  for (const Generator& g : kGenerators)
    if (g.device == target.device && g.available(target, why)) return &g;
  return nullptr;
}

}  // namespace

bool available(const Target& target, std::string* why) { return generator_for(target, why) != nullptr; }

const std::string& fingerprint(const Target& target) {
  static const std::string none = "none";
  const Generator* const g = generator_for(target);
  return g ? g->fingerprint(target) : none;
}

std::vector<Result> compile(const std::vector<Request>& requests, const Target& target, const CompileOptions& options) {
  if (requests.empty()) return {};
  const Generator* const g = generator_for(target);
  if (!g) VESTA_UNSUPPORTED("no code generator of this build makes code for {}", to_string(Device{target.device}));
  return g->compile(requests, target, options);
}

}  // namespace vesta::codegen
