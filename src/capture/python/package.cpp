#include "capture/python/package.h"

namespace vesta::capture {
namespace {

PackageLookup package_lookup = nullptr;

}  // namespace

void set_package_lookup(PackageLookup lookup) { package_lookup = lookup; }

Object package_object(PackageObject which) {
  if (package_lookup) return Object::take(package_lookup(which));
  PyErr_SetString(PyExc_RuntimeError, "Vesta's Python package is not loaded");
  return {};
}

}  // namespace vesta::capture
