#include "capture/python/functions/code_origin.h"

#include "capture/python/object.h"

namespace vesta::capture {
namespace {

bool in_packages(std::string_view file) {
  return file.find("/site-packages/") != std::string::npos || file.find("/dist-packages/") != std::string::npos;
}

}  // namespace

std::string folder_of(const char* module) {
  const Object file = attribute_of(module, "__file__");
  const std::string_view path = utf8_of(file.get());
  return std::string(path.substr(0, path.rfind('/') + 1));
}

bool is_standard_library(PyCodeObject* code) {
  static const std::string folder = folder_of("os");
  const std::string_view file = utf8_of(code->co_filename);
  // Python's tests are programs that use it.
  return !folder.empty() && file.starts_with(folder) && !file.starts_with(folder + "test/") && !in_packages(file);
}

bool is_installed_package(PyCodeObject* code) { return in_packages(utf8_of(code->co_filename)); }

}  // namespace vesta::capture
