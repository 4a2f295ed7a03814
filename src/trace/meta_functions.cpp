#include "trace/meta_functions.h"

namespace vesta::trace {
bool call_meta_function(const c10::OperatorHandle&, torch::jit::Stack&) { return false; }
}  // namespace vesta::trace
