// What the code generators share: distinct texts, a pool of threads, a cache for the whole process, the store.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/codegen.h"

namespace vesta::codegen {

struct Code {
  machine::Form form;
  const std::string& fingerprint;
  // The object's bytes, from any thread. Equal texts and symbols give equal bytes.
  std::function<std::string(const Request& request, const std::string& symbol)> generate;
};

std::vector<Result> compile_batch(const std::vector<Request>& requests, const Code& code,
                                  const CompileOptions& options);

}  // namespace vesta::codegen
