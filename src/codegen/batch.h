// What the code generators share: distinct texts, a pool of threads, a cache for the whole process, the store.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "codegen/codegen.h"

namespace vesta::codegen {

// A kernel that neither the process nor the store has.
struct Wanted {
  const Request* request;
  std::string symbol;
};

// Calls work(i) for i in [0, count) on threads of the process and returns when all are done. Throws what a call threw;
// the other calls are made all the same.
using Parallel = std::function<void(size_t count, const std::function<void(size_t)>& work)>;

struct Code {
  machine::Form form;
  const std::string& fingerprint;
  // Calls done(i, bytes) once for each wanted kernel, from any thread, as soon as it has them. Equal texts and symbols
  // give equal bytes, whatever else is wanted.
  std::function<void(std::span<const Wanted> wanted, const Parallel& parallel,
                     const std::function<void(size_t, std::string)>& done)>
      generate;
};

std::vector<Result> compile_batch(const std::vector<Request>& requests, const Code& code,
                                  const CompileOptions& options);

}  // namespace vesta::codegen
