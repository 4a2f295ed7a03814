#include "capture/python/wrapper/stance.h"

#include "capture/python/object.h"
#include "capture/python/wrapper/module_global.h"

namespace vesta::capture {
namespace {

bool is(const Object& o, std::string_view text) { return utf8_of(o.get()) == text; }

Stance decode(PyObject* set) {
  const Object name = attribute_of(set, "stance"), backend = attribute_of(set, "backend");
  if (is(name, "force_eager") || is(backend, "eager")) return Stance::ForceEager;
  if (is(name, "eager_on_recompile")) return Stance::EagerOnMiss;
  if (is(name, "fail_on_recompile")) return Stance::FailOnMiss;
  if (is(name, "eager_then_compile") || is(name, "aot_eager_then_compile")) return Stance::EagerFirst;
  return Stance::Default;
}

}  // namespace

Stance stance() {
  // torch keeps an immutable object in a global of a module that is slow to import, and that many programs never
  // import.
  static ModuleGlobal variable("torch._dynamo.eval_frame", "_stance");
  static PyObject* last = nullptr;
  static Stance decoded = Stance::Default;
  PyObject* now = variable.get();
  if (!now) return Stance::Default;
  if (now != last) {
    decoded = decode(now);
    Py_XSETREF(last, Py_NewRef(now));
  }
  return decoded;
}

}  // namespace vesta::capture
