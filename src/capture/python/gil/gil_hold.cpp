#include "capture/python/gil/gil_hold.h"

#include <Python.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/log.h"
#include "capture/python/frame/warnings.h"
#include "capture/python/gil/relocations.h"
#include "capture/python/object.h"

namespace vesta::capture {
namespace {

constexpr std::string_view kLibrary = "libtorch_python";

thread_local int holds = 0;           // scopes of this thread
thread_local int kept = 0;            // suppressed releases whose other half has not come yet
thread_local int64_t suppressed = 0;  // releases that were suppressed so far

PyThreadState* save_thread() {
  if (holds == 0) return PyEval_SaveThread();
  ++kept;
  ++suppressed;
  return PyThreadState_Get();
}

void restore_thread(PyThreadState* t) {
  if (kept == 0) return PyEval_RestoreThread(t);
  --kept;
}

// A torch function that releases the GIL around its work comes through us, both ways.
bool passes_self_test() {
  const GilHold hold;
  const int64_t before = suppressed;
  const Object torch = Object::take(PyImport_ImportModule("torch"));
  const Object made = Object::take(torch ? PyObject_CallMethod(torch.get(), "zeros", "i", 1) : nullptr);
  const Object sum = Object::take(made ? PyObject_CallMethod(made.get(), "neg", nullptr) : nullptr);
  if (!sum) PyErr_Clear();
  return sum && suppressed > before && kept == 0;
}

std::string text_of(Redirected outcome) {
  switch (outcome) {
    case Redirected::Done: return "";
    case Redirected::NoLibrary: return "libtorch_python is not a shared library of this process";
    case Redirected::NotImported: return "libtorch_python does not import the functions of Python that release the GIL";
    case Redirected::ReadOnly: return "the relocation table of libtorch_python is read-only";
  }
  return "";
}

std::string install() {
  // Without it, a warning that torch gives in a trace is given once, at the time of the trace.
  redirect_import(kLibrary, "PyErr_WarnEx", reinterpret_cast<void*>(warn));
  const char* setting = std::getenv("VESTA_GIL_HOLD");
  if (setting && std::string_view(setting) == "0") return "VESTA_GIL_HOLD=0 is set";
  // First the function that is right alone: it calls Python's own as long as nothing is kept.
  Redirected outcome = redirect_import(kLibrary, "PyEval_RestoreThread", reinterpret_cast<void*>(restore_thread));
  if (outcome == Redirected::Done)
    outcome = redirect_import(kLibrary, "PyEval_SaveThread", reinterpret_cast<void*>(save_thread));
  if (outcome != Redirected::Done) return text_of(outcome);
  return passes_self_test() ? "" : "a torch function releases the GIL in another way";
}

std::string& reason() {
  static std::string why = "it is not installed";
  return why;
}

}  // namespace

GilHold::GilHold() { ++holds; }
GilHold::~GilHold() { --holds; }

void install_gil_hold() {
  static bool installed = false;
  if (installed) return;
  installed = true;
  reason() = install();
  if (!gil_is_held())
    log::print(log::Topic::Fallbacks,
               "torch's operators release the GIL while a frame is traced ({}): an operator after a write to an object "
               "from outside is a graph break",
               reason());
}

bool gil_is_held() { return reason().empty(); }
const std::string& why_gil_is_not_held() { return reason(); }

}  // namespace vesta::capture
