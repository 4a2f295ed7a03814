// Takes the place of the code generators in a program whose artifacts are in the store: they must not be called.
#include <cstdio>
#include <cstdlib>

#include "codegen/batch.h"
#include "codegen/generator.h"

namespace vesta::codegen {

std::vector<Result> compile_batch(const std::vector<Request>& requests, const Code&, const CompileOptions&) {
  if (!requests.empty()) {
    std::fputs("the code generator was called\n", stderr);
    std::abort();
  }
  return {};
}

std::vector<Result> compile_with_llvm(const std::vector<Request>& requests, const Target& target,
                                      const CompileOptions& options) {
  return compile_batch(requests, {machine::Form::Elf, llvm_fingerprint(target), {}}, options);
}

}  // namespace vesta::codegen
