#include "capture/python/wrapper/captured_function.h"

#include <structmember.h>

#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/stopwatch.h"
#include "capture/entry/context_key.h"
#include "capture/python/tensors/anomaly_mode.h"
#include "capture/python/tensors/backward_time.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/values/classes.h"
#include "capture/python/wrapper/captured_callable.h"
#include "capture/python/wrapper/module_global.h"
#include "capture/python/wrapper/stance.h"

namespace vesta::capture {
namespace {

struct CapturedObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* weakrefs;
  CapturedCallable* captured;
};

CapturedCallable& of(PyObject* x) { return *reinterpret_cast<CapturedObject*>(x)->captured; }

// Receives the first frame of a call.
class FirstFrame final : public FrameReceiver {
 public:
  FirstFrame(CapturedCallable& callable, Gain* gain) : callable_(callable), gain_(gain) {}
  PyObject* receive(PyThreadState* t, Frame* f, int) override { return callable_.enter(t, f, gain_); }

 private:
  CapturedCallable& callable_;
  Gain* gain_;
};

// torch.fx.symbolic_trace runs: tensors are proxies.
bool is_fx_tracing() {
  static ModuleGlobal flag("torch.fx._symbolic_trace", "_is_fx_tracing_flag");
  static ModuleGlobal of_threads("torch.fx._symbolic_trace", "_is_fx_tracing_tls");  // torch 2.15 and later
  if (PyObject* set = flag.get()) return set == Py_True;
  PyObject* local = of_threads.get();
  if (!local) return false;
  const Object set = Object::take(PyObject_GetAttr(local, "flag"_name));
  if (set) return set.get() == Py_True;
  // The thread has never traced: torch takes that for False. The next read finds the attribute, and raises nothing.
  PyErr_Clear();
  if (PyObject_SetAttr(local, "flag"_name, Py_False) < 0) PyErr_Clear();
  return false;
}

// Why another tracer must see the program itself, which it follows by proxies or at the dispatcher; nullptr: none runs.
const char* traced_elsewhere() {
  if (const char* mode = foreign_mode()) return mode;
  if (is_fx_tracing()) return "torch.fx traces it";
  return is_anomaly_mode_on() ? "torch.autograd.set_detect_anomaly is on" : nullptr;
}

CallArguments arguments_of(PyObject* const* args, size_t flags, PyObject* names) {
  return {args, static_cast<size_t>(PyVectorcall_NARGS(flags)), names};
}

// Such calls run the original from now on.
void note_slower(CapturedCallable& c, const ProfitBySignature::Turn& turn, const Comparison& times) {
  const std::string reason = "its calls took " + text_of(times);
  c.fall_back(reason);
  c.profit.count_in(turn, c.fallbacks_for(reason));
}

// A call that shows how long the original takes.
PyObject* call_timed_original(CapturedCallable& c, const ProfitBySignature::Turn& turn, PyObject* const* args,
                              size_t flags, PyObject* names) {
  const uint64_t first_node = next_node_number();
  const Stopwatch watch;
  PyObject* result = PyObject_Vectorcall(c.wrapped(), args, flags, names);
  if (!result) {
    c.profit.drop(turn);
    return nullptr;
  }
  ++c.aside.calls;
  const double ms = watch.milliseconds();
  c.account.ran(ms, 1);
  if (const auto times = c.profit.learn_original(turn, 1e3 * ms, watch_backward({&result, 1}, true, first_node)))
    note_slower(c, turn, *times);
  return result;
}

// `elsewhere`: what traced_elsewhere() said.
PyObject* call_compiled(PyObject* self, PyObject* const* args, size_t flags, PyObject* names, const char* elsewhere) {
  CapturedCallable& c = of(self);
  const Object held = Object::share(self);
  const Object wrapped = Object::share(c.wrapped());
  ++c.calls;
  if (elsewhere) {
    c.fall_back(elsewhere);
    return PyObject_Vectorcall(wrapped.get(), args, flags, names);
  }
  if (const Stance s = stance(); s == Stance::ForceEager || (s == Stance::EagerFirst && c.calls.value() == 1)) {
    c.fall_back("torch.compiler.set_stance forces eager mode");
    return PyObject_Vectorcall(wrapped.get(), args, flags, names);
  }
  const CallArguments given = arguments_of(args, flags, names);
  const ProfitBySignature::Turn turn = c.profit.next(given);
  if (turn.run == Run::Original) return call_timed_original(c, turn, args, flags, names);
  if (turn.slower) {
    note_slower(c, turn, *turn.slower);
    ++c.aside.calls;
    c.account.ran(turn.slower->original_us / 1e3, 1);
    return PyObject_Vectorcall(wrapped.get(), args, flags, names);
  }
  const int64_t weight = c.account.weight(c.calls.value());
  const uint64_t first_node = turn.run == Run::Compiled ? next_node_number() : 0;
  std::optional<Stopwatch> watch;
  if (weight > 0 || turn.run == Run::Compiled) watch.emplace();
  Gain gain;
  gain.alone = c.profit.goes_before_parts(turn);
  PyObject* result = nullptr;
  {
    FirstFrame first(c, &gain);
    const HookScope hook_scope(first, nullptr);
    result = PyObject_Vectorcall(wrapped.get(), args, flags, names);
  }
  if (!result) {
    c.profit.drop(turn);
    c.aside.forget();
    return nullptr;
  }
  const double ms = watch ? watch->milliseconds() : 0;
  if (weight > 0) c.account.ran(ms - gain.compile_ms, weight);
  if (gain.measured && turn.run != Run::NotTimed) {
    c.profit.drop(turn, true);
  } else {
    const bool is_timed = turn.run == Run::Compiled;
    c.profit.learn(turn, given, gain, 1e3 * ms, is_timed ? watch_backward({&result, 1}, true, first_node) : nullptr);
  }
  if (!gain.measured) c.aside.learn(gain, given, c.fallbacks_for(gain.fallback));
  return result;
}

bool steps_aside(CapturedCallable& c, const CallArguments& call) {
  if (const std::optional<double> us = c.profit.keeps_original(call)) {
    ++c.aside.calls;
    c.account.ran(*us / 1e3, 1);
  } else if (!c.aside.wants(call)) {
    return false;
  }
  ++c.calls;
  return true;
}

PyObject* call_wrapped(const CapturedCallable& c, PyObject* const* args, size_t flags, PyObject* names) {
  const Object wrapped = Object::share(c.wrapped());
  return PyObject_Vectorcall(wrapped.get(), args, flags, names);
}

// Stepping aside comes first: with a tracer, a mode or a stance, the original would be called as well.
PyObject* call(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  if (steps_aside(of(self), arguments_of(args, flags, names)) || is_tracing())
    return call_wrapped(of(self), args, flags, names);
  return call_compiled(self, args, flags, names, traced_elsewhere());
}

// The slot `_vesta_call` of an object; nullptr: its class has none.
PyObject** slot_of_call(PyObject* x) {
  PyObject* member = _PyType_Lookup(Py_TYPE(x), "_vesta_call"_name);
  if (!member || Py_TYPE(member) != &PyMemberDescr_Type) return nullptr;
  const PyMemberDef* def = reinterpret_cast<PyMemberDescrObject*>(member)->d_member;
  if (def->type != T_OBJECT_EX) return nullptr;
  return &member_at(x, def->offset);
}

PyObject* unfinished(PyObject* self) {
  return PyErr_Format(PyExc_TypeError, "an unfinished %s cannot be called", Py_TYPE(self)->tp_name);
}

// The tp_call of classes that call_objects_by_slot() was given. Where another tracer runs, an object whose class has a
// method `_vesta_plain` is called by that method: the tracer sees the object itself, not the one that the slot calls.
PyObject* call_by_slot(PyObject* self, PyObject* args, PyObject* keywords) {
  PyObject** slot = slot_of_call(self);
  const Object held = Object::share(slot ? *slot : nullptr);
  if (!held) return unfinished(self);
  if (is_captured(held.get()) && !is_tracing()) {
    const char* reason = traced_elsewhere();
    const Object plain = Object::take(reason && _PyType_Lookup(Py_TYPE(self), "_vesta_plain"_name)
                                          ? PyObject_GenericGetAttr(self, "_vesta_plain"_name)
                                          : nullptr);
    if (plain) {
      ++of(held.get()).calls;
      of(held.get()).fall_back(reason);
      return PyObject_Call(plain.get(), args, keywords);
    }
    if (PyErr_Occurred()) return nullptr;
    if (!keywords || PyDict_GET_SIZE(keywords) == 0) {
      PyObject* const* items = reinterpret_cast<PyTupleObject*>(args)->ob_item;
      const auto count = static_cast<size_t>(PyTuple_GET_SIZE(args));
      if (!reason && steps_aside(of(held.get()), {items, count, nullptr}))
        return call_wrapped(of(held.get()), items, count, nullptr);
      return call_compiled(held.get(), items, count, nullptr, reason);
    }
  }
  return PyObject_Call(held.get(), args, keywords);
}

// vesta._C.CompiledBase: a call of it calls the object in its slot, without a tuple of the arguments.
struct CompiledBase {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* call;  // the slot
};

PyObject* call_base(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  const Object held = Object::share(reinterpret_cast<CompiledBase*>(self)->call);
  if (!held) return unfinished(self);
  return PyObject_Vectorcall(held.get(), args, flags, names);
}

PyObject* new_base(PyTypeObject* cls, PyObject*, PyObject*) {
  PyObject* made = cls->tp_alloc(cls, 0);
  if (made) reinterpret_cast<CompiledBase*>(made)->vectorcall = call_base;
  return made;
}

int traverse_base(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<CompiledBase*>(self)->call);
  return 0;
}

int clear_base(PyObject* self) {
  Py_CLEAR(reinterpret_cast<CompiledBase*>(self)->call);
  return 0;
}

void dealloc_base(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear_base(self);
  Py_TYPE(self)->tp_free(self);
}

PyMemberDef base_members[] = {{"_vesta_call", T_OBJECT_EX, offsetof(CompiledBase, call), 0, nullptr}, {}};
PyTypeObject base_type = {.ob_base = {PyObject_HEAD_INIT(nullptr) 0},
                          .tp_name = "vesta._C.CompiledBase",
                          .tp_basicsize = sizeof(CompiledBase),
                          .tp_dealloc = dealloc_base,
                          .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                          .tp_doc = "Has the slot _vesta_call, by which call_by_slot() makes the interpreter call it.",
                          .tp_traverse = traverse_base,
                          .tp_clear = clear_base,
                          .tp_members = base_members,
                          .tp_new = new_base};

// Makes a static type ready and puts it into the module under the last part of its name.
int add_type(PyObject* module, PyTypeObject& t) {
  if (PyType_Ready(&t) < 0) return -1;
  return PyModule_AddObjectRef(module, std::strrchr(t.tp_name, '.') + 1, reinterpret_cast<PyObject*>(&t));
}

PyObject* get_wrapped(PyObject* self, void*) { return Py_NewRef(of(self).wrapped()); }

PyObject* reset(PyObject* self, PyObject*) {
  of(self).reset();
  Py_RETURN_NONE;
}

void dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  auto* o = reinterpret_cast<CapturedObject*>(self);
  if (o->weakrefs) PyObject_ClearWeakRefs(self);
  delete std::exchange(o->captured, nullptr);
  Py_TYPE(self)->tp_free(self);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  auto* o = reinterpret_cast<CapturedObject*>(self);
  return o->captured ? o->captured->traverse(visit, arg) : 0;
}

int clear(PyObject* self) {
  if (auto* o = reinterpret_cast<CapturedObject*>(self); o->captured) o->captured->clear();
  return 0;
}

PyMethodDef methods[] = {{"reset", reset, METH_NOARGS, "Forgets every compiled variant."},
                         {nullptr, nullptr, 0, nullptr}};
PyGetSetDef getters[] = {{"wrapped", get_wrapped, nullptr, "The callable as it is without Vesta.", nullptr},
                         {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyTypeObject type = {.ob_base = {PyObject_HEAD_INIT(nullptr) 0},
                     .tp_name = "vesta._C.CapturedFunction",
                     .tp_basicsize = sizeof(CapturedObject),
                     .tp_dealloc = dealloc,
                     .tp_vectorcall_offset = offsetof(CapturedObject, vectorcall),
                     .tp_call = PyVectorcall_Call,
                     .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
                     .tp_doc = "A Python callable that Vesta captures and compiles as it is called.",
                     .tp_traverse = traverse,
                     .tp_clear = clear,
                     .tp_weaklistoffset = offsetof(CapturedObject, weakrefs),
                     .tp_methods = methods,
                     .tp_getset = getters};

}  // namespace

int add_captured_function(PyObject* module) { return add_type(module, base_type) < 0 ? -1 : add_type(module, type); }

PyObject* new_captured_function(std::unique_ptr<CapturedCallable> callable) {
  auto* o = PyObject_GC_New(CapturedObject, &type);
  if (!o) return nullptr;
  o->vectorcall = call;
  o->weakrefs = nullptr;
  o->captured = callable.release();
  PyObject_GC_Track(reinterpret_cast<PyObject*>(o));
  return reinterpret_cast<PyObject*>(o);
}

bool is_captured(PyObject* x) { return Py_TYPE(x) == &type; }

CapturedCallable& captured_in(PyObject* x) { return of(x); }

PyObject* wrapped_by_capture(PyObject* x) {
  if (is_captured(x)) return of(x).wrapped();
  if (!is_python_class(Py_TYPE(x)) || Py_TYPE(x)->tp_call != call_by_slot) return nullptr;
  PyObject** slot = slot_of_call(x);
  return slot && *slot && is_captured(*slot) ? of(*slot).wrapped() : nullptr;
}

void call_objects_by_slot(PyTypeObject* cls) {
  cls->tp_call = call_by_slot;
  if (!PyType_IsSubtype(cls, &base_type)) return;
  // A Python class inherits the offset. It does not inherit the flag, because it has a method `__call__`.
  cls->tp_vectorcall_offset = offsetof(CompiledBase, vectorcall);
  cls->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
}

}  // namespace vesta::capture
