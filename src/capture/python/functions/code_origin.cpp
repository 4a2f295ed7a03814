#include "capture/python/functions/code_origin.h"

#include <string>

namespace vesta::capture {
namespace {

std::string text(PyObject* s) {
  const char* p = s && PyUnicode_Check(s) ? PyUnicode_AsUTF8(s) : nullptr;
  return p ? p : "";
}

bool in_packages(const std::string& file) {
  return file.find("/site-packages/") != std::string::npos || file.find("/dist-packages/") != std::string::npos;
}

}  // namespace

bool is_standard_library(PyCodeObject* code) {
  static const std::string folder = [] {
    PyObject* os = PyImport_ImportModule("os");
    PyObject* file = os ? PyObject_GetAttrString(os, "__file__") : nullptr;
    std::string path = text(file);
    Py_XDECREF(file);
    Py_XDECREF(os);
    PyErr_Clear();
    return path.substr(0, path.rfind('/') + 1);
  }();
  const std::string file = text(code->co_filename);
  // Python's tests are programs that use it.
  return !folder.empty() && file.starts_with(folder) && !file.starts_with(folder + "test/") && !in_packages(file);
}

bool is_installed_package(PyCodeObject* code) { return in_packages(text(code->co_filename)); }

}  // namespace vesta::capture
