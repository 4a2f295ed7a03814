#include "runtime/compile_again.h"

namespace vesta::runtime {

std::optional<artifact::Artifact> compile_again(const program::Variant&) { return std::nullopt; }

}  // namespace vesta::runtime
