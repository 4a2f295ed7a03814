// Compiles one call of a C++ callable: traces the callable on the call's tensors and compiles the graph. No list of
// variants is read or written but the one that is given, so that several threads may be here at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "capture/cpp/function_variant.h"
#include "vesta/detail/function.h"
#include "vesta/options.h"

namespace vesta::capture::functions {

// What is known of a callable before its first call.
struct FunctionInfo {
  std::string name;
  Options options;
  std::vector<detail::InputInfo> tensors, integers;  // of the inputs, or empty
  int64_t id = 0;                                    // of the segment that it is in events
};

// A variant for the call: compiled, or one that says why its inputs run eager. Never nullptr. Rethrows only the cause
// of detail::Interrupted. `before`: the variants so far, from which the call's symbolic dimensions follow. If the
// compile takes longer than the options allow, the variant has no executable yet (FunctionVariant::pending).
// `enough_ms`: a deadline that would be enough for the trace, as LateTrace::enough_ms().
std::shared_ptr<FunctionVariant> make_variant(const FunctionInfo& info, const detail::Call& call,
                                              const std::string& key, uint64_t context,
                                              const FunctionVariantList& before,
                                              const detail::Function::Program& program, double enough_ms);

}  // namespace vesta::capture::functions
