// Services that all code generators share: merging of equal texts, a pool of threads, the cache of the process, and the
// store. Independent of any target.
#pragma once

#include <span>

#include "base/events.h"
#include "codegen/codegen.h"

namespace vesta::codegen {

// A kernel that neither the process nor the store has.
struct Wanted {
  const Request* request;
  std::string symbol;
};

// The event that a generator compiles a kernel, as long as it does.
class KernelSpan : events::Span {
 public:
  KernelSpan(const Wanted& kernel, const char* how) : Span(events::Type::Kernel, kernel.request->name) {
    if (events::Event* const e = event()) e->kernel = e->entry = kernel.symbol, e->detail = how;
  }
};

// Calls work(i) for i in [0, count) on the process's threads and returns when all calls are done. If a call throws, the
// other calls are still made, and then the exception is rethrown.
using Parallel = std::function<void(size_t count, const std::function<void(size_t)>& work)>;

struct Code {
  machine::Form form;
  const std::string& fingerprint;
  // Calls done(i, made) once for each wanted kernel, from any thread, as soon as its bytes exist. Equal texts and
  // symbols must give equal bytes, whatever else is wanted.
  std::function<void(std::span<const Wanted> wanted, const Parallel& parallel,
                     const std::function<void(size_t, Generated)>& done)>
      generate;
  bool calls_wait = false;  // a call that `generate` makes on the threads may wait for another one
};

std::vector<Result> compile_batch(const std::vector<Request>& requests, const Code& code,
                                  const CompileOptions& options);

}  // namespace vesta::codegen
