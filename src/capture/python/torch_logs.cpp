#include "capture/python/torch_logs.h"

#include "capture/python/package.h"

namespace vesta::capture {
namespace {

const char* name_of(TorchLog log) {
  switch (log) {
    case TorchLog::GraphBreaks: return "graph_breaks";
    case TorchLog::Recompiles: return "recompiles";
    case TorchLog::GraphCode: break;
  }
  return "graph_code";
}

// `text`: nullptr only asks.
bool call_writer(TorchLog log, const char* text) {
  const Object writer = package_object(PackageObject::WriteTorchLog);
  const Object on = Object::take(writer ? PyObject_CallFunction(writer.get(), "sz", name_of(log), text) : nullptr);
  if (!on) PyErr_WriteUnraisable(writer.get());
  return on.get() == Py_True;
}

}  // namespace

bool is_on(TorchLog log) { return call_writer(log, nullptr); }

void write(TorchLog log, const std::string& text) { call_writer(log, text.c_str()); }

}  // namespace vesta::capture
