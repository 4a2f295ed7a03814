// From kernels to code, by the generator that serves the target (generator.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/target.h"
#include "machine/object.h"
#include "store/store.h"

namespace vesta::codegen {

// Whether code is generated for the target that is faster than calls into ATen: the plan fuses where it is. `why`: the
// reason of the target's last generator, if none serves it.
bool available(const Target& target, std::string* why = nullptr);
// Everything besides a kernel's text that its code depends on: the target, and the generator's version and sources;
// "none" where no generator serves the target.
const std::string& fingerprint(const Target& target);

struct CompileOptions {
  int workers = 0;                // threads for compiling; 0: all cores
  std::string dump_dir;           // if set: <dir>/<name>.ll and .s, or .cu and .cubin, for each kernel
  store::Store* store = nullptr;  // where objects of earlier processes are, and go
};

// Compiles distinct kernels (by text) in parallel, each once per process. Equal text gives the same object while
// somebody owns it, and equal bytes in every process and on every machine. Throws InternalError, and Unsupported where
// no generator serves the target.
struct Request {
  std::string text;  // of a loops::Kernel, as print gives it
  std::string name;  // for dumps: "k3_add_gelu"
};
enum class Origin : uint8_t { Compiled, Process, Store };  // compiled now; found in this process; read from the store
struct Result {
  std::shared_ptr<const machine::Object> object;
  Origin origin = Origin::Compiled;
};
std::vector<Result> compile(const std::vector<Request>& requests, const Target& target, const CompileOptions& options);

}  // namespace vesta::codegen
