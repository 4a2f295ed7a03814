#include "interop/torch_release.h"

#include <torch/version.h>

namespace vesta {

const std::string& torch_release() {
  static const auto* text =
      new std::string(std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR));
  return *text;
}

}  // namespace vesta
