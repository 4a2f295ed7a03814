// Calls of C functions, by what their rows say.
#include <algorithm>
#include <optional>

#include "capture/python/functions/functions.h"
#include "capture/python/functions/plain_objects.h"
#include "capture/python/gil/gil_hold.h"
#include "capture/python/hook/hook.h"
#include "capture/python/sources/cached_result.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/calls/scaled_operators.h"
#include "capture/python/tracer/descriptors.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/class_sets.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture {
namespace {

bool is_c_function(PyObject* f) { return PyCFunction_Check(f) || is_method_of_c(f); }

bool writes_self(const Callable& known) {
  return known.effect == Effect::WritesSelf || known.effect == Effect::Appends || known.effect == Effect::Extends;
}

// A call of an operator that no Python code of the program or of a library can see.
bool is_plain_operation(PyObject* f, PyObject* const* args, Py_ssize_t all) {
  if (!is_c_function(f) || known_callable(f).effect != Effect::Tensors) return false;
  PyObject* self = PyCFunction_Check(f) ? PyCFunction_GET_SELF(f) : nullptr;
  if (self && !PyModule_Check(self) && !PyType_Check(self) && !is_torch_operator(f) && !is_data(self)) return false;
  for (Py_ssize_t i = 0; i < all; ++i)
    if (!is_data(args[i])) return false;
  return true;
}

// A method of dict that writes to an OrderedDict and leaves its order as it was.
bool breaks_order(const Callable& known, const Call& c) {
  return is_method_of_c(c.function) && known.effect == Effect::WritesSelf && c.n > 0 && PyODict_Check(c.args[0]) &&
         reinterpret_cast<PyDescrObject*>(c.function)->d_type == &PyDict_Type;
}

// The break of a function without a row.
Break break_of_unknown(const std::string& name) {
  if (name.ends_with("_push_saved_tensors_default_hooks")) return Break::SavedTensorHooks;
  return name == "print" ? Break::Print : Break::UnknownFunction;
}

}  // namespace

bool Calls::may_pass(PyObject* x) {
  if (is_tensor(x) || is_scalar(x)) return true;
  if (is_c_function(x)) {
    const Callable known = known_callable(x);
    // A container that the trace made: there is nothing to guard and nothing to take back.
    PyObject* self = PyCFunction_Check(x) ? PyCFunction_GET_SELF(x) : nullptr;
    const bool is_new = self && t_.sources.find(self) < 0 &&
                        (PyDict_CheckExact(self) || PyList_CheckExact(self) || PySet_CheckExact(self));
    const bool is_known = known.effect != Effect::Unknown && known.effect != Effect::Refused;
    if (!is_known || (!is_new && (writes_self(known) || !known.passable)))
      return t_.graph_break(Break::FunctionArgument, name_of_callable(x)), false;
  }
  if (is_of(x, ClassSet::Partial)) {
    const Object f = Object::take(PyObject_GetAttrString(x, "func"));
    return f && may_pass(f.get());
  }
  if (is_cached_function(x)) return t_.graph_break(Break::CachedFunctionPassed), false;
  return true;
}

bool Calls::may_read_arguments(const Call& c, Py_ssize_t first) {
  for (Py_ssize_t i = first; i < c.all(); ++i)
    if (!t_.tracker.operand(c.args[i]) || !may_pass(c.args[i])) return false;
  return true;
}

PyObject* Calls::plainly(PyObject* f, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  // Python code that torch runs for an operator of plain tensors (a rule for the shapes of its results, a
  // decomposition) is not part of the program.
  const Py_ssize_t all = n + (names ? PyTuple_GET_SIZE(names) : 0);
  if (!gil_is_held() && !PyFunction_Check(f) && !PyMethod_Check(f) && std::any_of(args, args + all, is_tensor) &&
      !t_.may_run_operator())
    return nullptr;
  std::optional<HookOff> off;
  if (is_plain_operation(f, args, all) && !are_function_modes_active()) off.emplace();
  PyObject* result = PyObject_Vectorcall(f, args, static_cast<size_t>(n), names);
  if (!result && !PyFunction_Check(f) && !PyMethod_Check(f))
    for (Py_ssize_t i = 0; i < n; ++i) t_.numbers.note_failure(args[i]);
  return t_.tracker.finish_call(result);
}

PyObject* Calls::with_numbers(const Call& c) {
  KeptArguments numbers(c);
  for (Py_ssize_t i = 0; i < c.all(); ++i)
    if (!numbers.add(Object::take(t_.numbers.plain(c.args[i])))) return nullptr;
  return plainly(c.function, numbers.data(), c.n, c.names);
}

PyObject* Calls::on_tensors(const Call& c, bool as_data) {
  if (!t_.may_run_operator()) return nullptr;
  KeptArguments given(c);
  for (Py_ssize_t i = 0; i < c.all(); ++i) {
    PyObject* x = c.args[i];
    if (!t_.tracker.operand(x) || (is_tensor(x) && !t_.tensors.lift(x))) return nullptr;
    Object seen = t_.tensors.wrap_items(x, 8);
    // torch stores the numbers itself, and symbolic ones in 32 bits.
    if (seen && as_data) seen = Object::take(t_.numbers.plain(seen.get(), 8));
    if (!given.add(std::move(seen))) return nullptr;
  }
  return plainly(c.function, given.data(), c.n, c.names);
}

bool Calls::may_write(const Callable& known, const Call& c) {
  const bool appends = known.effect != Effect::WritesSelf;
  PyObject* x = c.owner();
  if (x && !is_scalar(x) && !is_tensor(x) &&
      !t_.containers.before_write(x, appends ? UndoLog::Writes::Append : UndoLog::Writes::Any))
    return false;
  const Py_ssize_t first = c.self || !x ? 0 : 1;
  if (!appends) return guard_compared(known, c) && may_read_arguments(c, first);
  for (Py_ssize_t i = first; i < c.all(); ++i) {
    PyObject* item = c.args[i];
    // The list keeps it, and nothing reads it.
    const bool is_kept = (is_tensor(item) || t_.sources.find(item) >= 0) && !PyIter_Check(item);
    if ((!is_kept || known.effect == Effect::Extends) && !t_.tracker.operand(item)) return false;
    if (!is_kept && !may_pass(item)) return false;
  }
  return true;
}

PyObject* Calls::call_known(const Callable& known, const Call& c) {
  if (const auto x = call_with_number_tensors(t_, known, c)) return *x;
  if (PyObject* x = t_.numbers.call(known, c.function, c.args, c.n, c.names); x || t_.ended() || PyErr_Occurred())
    return x;
  if (breaks_order(known, c)) return t_.graph_break(Break::OrderedDictMethod);
  if (known.handler)
    if (const auto result = known.handler(t_, c)) return *result;
  return by_effect(known, c);
}

PyObject* Calls::by_effect(const Callable& known, const Call& c) {
  switch (known.effect) {
    case Effect::Unknown: {
      const std::string name = name_of_callable(c.function);
      return t_.graph_break(break_of_unknown(name), name);
    }
    case Effect::Refused: return t_.graph_break(known.refusal, name_of_callable(c.function), known.reason);
    case Effect::Tensors: return on_tensors(c, /*as_data=*/false);
    case Effect::Torch: return plainly(c);
    case Effect::WritesSelf:
    case Effect::Appends:
    case Effect::Extends: return may_write(known, c) ? plainly(c) : nullptr;
    case Effect::ReadsState:
      if (c.owner() && !t_.tracker.track_state(c.owner())) return nullptr;
      break;
    case Effect::Reads:
    case Effect::ReadsNumbers: break;
  }
  if (c.self && !t_.tracker.operand(c.self)) return nullptr;
  if (!guard_compared(known, c) || !may_refer(c) || !may_read_arguments(c)) return nullptr;
  return known.effect == Effect::ReadsNumbers ? plainly(c) : with_numbers(c);
}

}  // namespace vesta::capture
