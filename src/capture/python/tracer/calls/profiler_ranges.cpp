// torch.profiler.record_function. Without a profiler a range has no effect, and a trace goes through it: a guard asks
// each call whether a profiler is active. With one, its begin and its end are graph breaks.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture::handlers {
namespace {

// Whether the range of a call's first argument has begun; nullopt: there is no such argument, or the trace has ended.
std::optional<bool> has_begun(Trace& t, const Call& c) {
  if (c.n < 1 || c.named() > 0) return std::nullopt;
  const Object record = Object::take(t.objects.get_attr(c.args[0], "record"_name));
  if (!record) return std::nullopt;
  return record.get() != Py_None;
}

// What __exit__ asks: False means that it ends nothing.
Result set_ends_at_exit(Trace& t, const Call& c, PyObject* value, PyObject* result) {
  if (t.objects.set_attr(c.args[0], "run_callbacks_on_exit"_name, value) < 0) return nullptr;
  return Py_NewRef(result);
}

}  // namespace

Result enter_range(Trace& t, const Call& c) {
  const auto begun = has_begun(t, c);
  if (!begun) return t.ended() ? Result(nullptr) : std::nullopt;
  if (*begun) return std::nullopt;
  const Object is_active = attribute_of("torch._C._autograd", "_profiler_enabled");
  if (!is_active) return std::nullopt;
  const Object active = Object::take(PyObject_CallNoArgs(is_active.get()));
  if (!active) return PyErr_Clear(), std::nullopt;
  t.guards.add(Check::Is, t.sources.add(SourceKind::Flag, t.sources.constant(is_active.get())), active.get());
  if (active.get() != Py_False) return std::nullopt;
  return set_ends_at_exit(t, c, Py_False, c.args[0]);
}

Result exit_range(Trace& t, const Call& c) {
  const auto begun = has_begun(t, c);
  if (!begun) return t.ended() ? Result(nullptr) : std::nullopt;
  if (*begun) return std::nullopt;
  return set_ends_at_exit(t, c, Py_True, Py_None);
}

}  // namespace vesta::capture::handlers
