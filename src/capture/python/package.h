// Objects of the Python package that the capture uses. The bindings look them up: no file of the capture names or
// imports a module of the package.
#pragma once

#include "capture/python/object.h"

namespace vesta::capture {

enum class PackageObject {
  ErrorClass,          // the base of all of Vesta's errors
  MakeGraphBreak,      // (text, hint, file, line, function, stack, name) -> the exception of fullgraph=True
  MakeStrictError,     // (text, file, line, function) -> the exception of the option `strict`
  MakeRecompileError,  // (name, guard, was, now, file, line, function) -> the exception of the stance
                       // "fail_on_recompile"
  WriteTorchLog,       // (artifact, text or None) -> whether torch's log of this name is on
};
// A new reference; nullptr with an error set. Called at every use, so that a module is imported only when it is needed.
using PackageLookup = PyObject* (*)(PackageObject);

// Once, before the first trace.
void set_package_lookup(PackageLookup lookup);
// Empty with an error set if the lookup fails.
Object package_object(PackageObject which);

}  // namespace vesta::capture
