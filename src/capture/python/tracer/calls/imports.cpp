// Imports by importlib.import_module, as torch makes them for its modules that are loaded late (torch.__getattr__).
#include "capture/python/functions/call_handlers.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture::handlers {

Result import_module(Trace& t, const Call& c) {
  if (c.named() > 0 || c.n < 1 || c.n > 2 || !PyUnicode_Check(c.args[0])) return std::nullopt;
  Object name = Object::share(c.args[0]);
  const std::string_view text = utf8_of(name.get());
  if (text.starts_with(".")) {
    if (c.n != 2 || !PyUnicode_Check(c.args[1]) || text.starts_with("..")) return std::nullopt;
    name = Object::take(PyUnicode_Concat(c.args[1], name.get()));
    if (!name) return nullptr;
  }
  return t.variables.loaded_module(name.get());
}

}  // namespace vesta::capture::handlers
