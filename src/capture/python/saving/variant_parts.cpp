#include "capture/python/saving/variant_parts.h"

#include <regex>

#include "base/check.h"

namespace vesta::capture {

std::string VariantParts::plain_text(int source) const {
  static const auto* in_dicts = new std::regex(R"(\._(?:modules|parameters|buffers)\['([^']*)'\])");
  return std::regex_replace(text(source), *in_dicts, ".$1");
}

PyObject* VariantParts::object(int source) const {
  VESTA_USER_CHECK(found[source], "{} does not exist any more", text(source));
  return found[source];
}

}  // namespace vesta::capture
