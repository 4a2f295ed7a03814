// Facts about the code generator that are known without calling LLVM. A process that finds its artifacts in the store
// needs no more.
#include <fmt/format.h>
#include <llvm/Config/llvm-config.h>

#include <map>
#include <mutex>

#include "base/digest.h"
#include "codegen/generator.h"
#include "machine/imports.h"
#include "vesta_codegen_digest.h"

namespace vesta::codegen {

bool llvm_available(const Target& t, std::string* why) {
  const bool known = t.triple.starts_with("x86_64-");
  if (!known && why) *why = "no code is generated for " + t.triple;
  return known;
}

const std::string& llvm_fingerprint(const Target& target) {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, std::string>;
  const std::string code = code_text(target);
  const std::lock_guard lock(mutex);
  std::string& text = (*known)[code];
  if (text.empty())
    text = fmt::format("llvm {}; {}; vector functions {}; sources {}", LLVM_VERSION_STRING, code,
                       digest({machine::vector_functions()}), VESTA_CODEGEN_DIGEST);
  return text;
}

}  // namespace vesta::codegen
