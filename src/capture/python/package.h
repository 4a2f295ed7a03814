// What the capture uses of the Python package. The bindings look it up: no file here names a module of the package.
#pragma once

#include "capture/python/object.h"

namespace vesta::capture {

enum class PackageObject {
  ErrorClass,            // of all of Vesta's errors
  MakeGraphBreak,        // (text, hint, file, line, function, stack, name) -> the exception of fullgraph=True
  MakeStrictError,       // (text, file, line, function) -> the exception of the option `strict`
  MakeRecompileError,    // (name, guard, was, now, file, line, function) -> the exception of the stance
                         // "fail_on_recompile"
  CompileWithGradients,  // (tape, example inputs, options) -> a program that AOTAutograd split in two halves
};
// A new reference; nullptr with an error set. It is asked at every use, so that a module is imported as late as it can.
using PackageLookup = PyObject* (*)(PackageObject);

// Once, before the first trace.
void set_package_lookup(PackageLookup lookup);
// Nothing, with an error set, if the lookup fails.
Object package_object(PackageObject which);

}  // namespace vesta::capture
