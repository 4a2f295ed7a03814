#include "capture/python/segments/refusal.h"

#include "capture/python/package.h"

namespace vesta::capture {
namespace {

// Raises the exception that `maker` makes of `arguments`, a tuple (stolen).
void raise_error(PackageObject maker, PyObject* arguments) {
  const Object given = Object::take(arguments);
  const Object make = package_object(maker);
  const Object error = Object::take(make && given ? PyObject_CallObject(make.get(), given.get()) : nullptr);
  if (error) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
}

}  // namespace

void refuse_break(const Reason& why, const UserLine& where) {
  const std::string hint(row(why.id).hint), name(row(why.id).name);
  raise_error(PackageObject::MakeGraphBreak,
              Py_BuildValue("(sssis[]s)", why.text.c_str(), hint.c_str(), where.file.c_str(), where.line,
                            where.function.c_str(), name.c_str()));
}

void refuse_eager(const Reason& why, const UserLine& where) {
  raise_error(PackageObject::MakeStrictError,
              Py_BuildValue("(ssis)", why.text.c_str(), where.file.c_str(), where.line, where.function.c_str()));
}

void refuse_recompile(const std::string& name, const CaptureDifference& why) {
  raise_error(PackageObject::MakeRecompileError,
              Py_BuildValue("(sssssis)", name.c_str(), why.guard.c_str(), why.was.c_str(), why.now.c_str(),
                            why.where.file.c_str(), why.where.line, why.where.function.c_str()));
}

}  // namespace vesta::capture
