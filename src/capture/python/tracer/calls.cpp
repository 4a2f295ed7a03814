// Calls. Python code comes back to us by the hook, whoever calls it; C code is let through if it is known.
#include <cstring>
#include <optional>

#include "capture/python/hook/hook.h"
#include "capture/python/sources/cached_result.h"
#include "capture/python/tracer/compilers.h"
#include "capture/python/tracer/library.h"
#include "capture/python/tracer/operator_after_write.h"
#include "capture/python/tracer/tracer.h"
#include "capture/python/wrapper/captured_function.h"

namespace vesta::capture {
namespace {

bool is_partial(PyObject* x) { return std::strcmp(Py_TYPE(x)->tp_name, "functools.partial") == 0; }

// ": why", as it was given to disable().
std::string reason_of_disabling(PyObject* function) {
  PyObject* dict = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  PyObject* why = dict ? PyDict_GetItemString(dict, "_torchdynamo_disable_msg") : nullptr;
  const char* text = why && PyUnicode_Check(why) ? PyUnicode_AsUTF8(why) : nullptr;
  return text ? std::string(": ") + text : std::string();
}

// The function that torch hides from Dynamo, and from Dynamo alone, behind a wrapper of torch._compile; borrowed.
PyObject* hidden_from_dynamo(PyObject* function) {
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  if (PyUnicode_CompareWithASCIIString(code->co_qualname, "_disable_dynamo.<locals>.inner") != 0) return nullptr;
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch._compile");
  PyObject* dict = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  if (!module || !PyModule_Check(module) || PyFunction_GET_GLOBALS(function) != PyModule_GetDict(module) || !dict)
    return nullptr;
  PyObject* inner = PyDict_GetItemString(dict, "__wrapped__");
  return inner && PyFunction_Check(inner) ? inner : nullptr;
}

// A call of an operator that no Python code of anyone's can see.
bool is_plain_operation(PyObject* f, PyObject* const* args, Py_ssize_t all) {
  if (!PyCFunction_Check(f) && Py_TYPE(f) != &PyMethodDescr_Type && Py_TYPE(f) != &PyWrapperDescr_Type) return false;
  if (known_callable(f).effect != Effect::Tensors) return false;
  PyObject* self = PyCFunction_Check(f) ? reinterpret_cast<PyCFunctionObject*>(f)->m_self : nullptr;
  if (self && !PyModule_Check(self) && !PyType_Check(self) && !is_torch_operator(f) && !is_data(self)) return false;
  for (Py_ssize_t i = 0; i < all; ++i)
    if (!is_data(args[i])) return false;
  return true;
}

// Of a function written in C that is not in the table.
Break break_of_unknown(PyObject* f) {
  const std::string name = name_of_callable(f);
  if (name.ends_with("_push_saved_tensors_default_hooks")) return Break::SavedTensorHooks;
  return name == "print" ? Break::Print : Break::UnknownFunction;
}

}  // namespace

bool Tracer::argument(PyObject* x) {
  if (is_tensor(x) || is_scalar(x)) return true;
  if (PyCFunction_Check(x) || Py_TYPE(x) == &PyMethodDescr_Type || Py_TYPE(x) == &PyWrapperDescr_Type) {
    const Callable known = known_callable(x);
    const Effect e = known.effect;
    // What it writes was made here: there is nothing to take back.
    PyObject* self = PyCFunction_Check(x) ? reinterpret_cast<PyCFunctionObject*>(x)->m_self : nullptr;
    const bool writes = e == Effect::WritesSelf || e == Effect::Appends || known.special == Special::DictPop ||
                        known.special == Special::DictGet || known.special == Special::DictSetDefault;
    if (writes && self && sources.find(self) < 0 &&
        (PyDict_CheckExact(self) || PyList_CheckExact(self) || PySet_CheckExact(self)))
      return true;
    if (known.special == Special::Len) return true;  // of items that are guarded with what holds them
    if (e == Effect::Unknown || e == Effect::Refused || e == Effect::WritesSelf || e == Effect::Appends ||
        e == Effect::Special) {
      graph_break(Break::FunctionArgument, name_of_callable(x));
      return false;
    }
  }
  if (is_partial(x)) {
    const Object f = Object::take(PyObject_GetAttrString(x, "func"));
    return f && argument(f.get());
  }
  if (is_cached_function(x)) return graph_break(Break::CachedFunctionPassed), false;
  return true;
}

PyObject* Tracer::call_plainly(PyObject* f, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  // Python code that torch runs for an operator of plain tensors (what says the shapes of its results, a decomposition)
  // is no part of the program.
  std::optional<HookOff> off;
  if (is_plain_operation(f, args, n + (names ? PyTuple_GET_SIZE(names) : 0)) && !are_function_modes_active())
    off.emplace();
  PyObject* result = PyObject_Vectorcall(f, args, static_cast<size_t>(n), names);
  if (!result && !PyFunction_Check(f) && !PyMethod_Check(f))
    for (Py_ssize_t i = 0; i < n; ++i) note_symbols(args[i]);
  return finish_call(result);
}

bool Tracer::guard_hash(PyObject* x) {
  if (!may_read_class(x)) return false;
  if (is_scalar(x) || PyType_Check(x)) return true;
  for (Py_ssize_t i = 0; PyTuple_Check(x) && i < PyTuple_GET_SIZE(x); ++i)
    if (!guard_hash(PyTuple_GET_ITEM(x, i))) return false;
  if (PyMethod_Check(x)) return guard_hash(PyMethod_GET_SELF(x)) && guard_hash(PyMethod_GET_FUNCTION(x));
  return Py_TYPE(x)->tp_hash != PyBaseObject_Type.tp_hash || guard_address(real_of(x) ? real_of(x) : x);
}

bool Tracer::update_keys(PyObject* dict, PyObject* mapping) {
  const Object from = Object::take(PyDict_Copy(mapping));
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (from && PyDict_Next(from.get(), &at, &key, &value))
    if (!writes_key(dict, key, false) || PyDict_SetItem(dict, key, value) < 0) return false;
  return static_cast<bool>(from);
}

PyObject* Tracer::call_special(Special special, PyObject* f, PyObject* self, PyObject* const* args, Py_ssize_t n,
                               PyObject* names, bool* done) {
  *done = true;
  const bool plain = !names || PyTuple_GET_SIZE(names) == 0;
  switch (special) {
    case Special::GetAttr:
      if ((n == 2 || n == 3) && plain && PyUnicode_Check(args[1])) {
        PyObject* x = get_attr(args[0], args[1]);
        if (x || aborted_ || n == 2 || !PyErr_ExceptionMatches(PyExc_AttributeError)) return x;
        PyErr_Clear();
        return Py_NewRef(args[2]);
      }
      break;
    case Special::HasAttr:
      if (n == 2 && plain && PyUnicode_Check(args[1])) {
        PyObject* x = get_attr(args[0], args[1]);
        if (aborted_ || (!x && !PyErr_ExceptionMatches(PyExc_AttributeError))) return nullptr;
        PyErr_Clear();
        Py_XDECREF(x);
        return PyBool_FromLong(x != nullptr);
      }
      break;
    case Special::SetAttr:
      if (n == 3 && plain && PyUnicode_Check(args[1])) {
        if (set_attr(args[0], args[1], args[2]) < 0) return nullptr;
        Py_RETURN_NONE;
      }
      break;
    case Special::DelAttr:
      if (n == 2 && plain && PyUnicode_Check(args[1])) {
        if (set_attr(args[0], args[1], nullptr) < 0) return nullptr;
        Py_RETURN_NONE;
      }
      break;
    case Special::ObjectGetAttr:
    case Special::ObjectSetAttr:
    case Special::ObjectDelAttr: {
      PyObject* const* rest = self ? args : args + 1;
      const Py_ssize_t count = self ? n : n - 1;
      PyObject* owner = self ? self : n > 0 ? args[0] : nullptr;
      if (!owner || !plain || count < 1 || !PyUnicode_Check(rest[0])) break;
      if (is_tensor(owner) || PyType_Check(owner) || PyModule_CheckExact(owner)) {
        if (special == Special::ObjectGetAttr) return get_attr(owner, rest[0]);
        return graph_break(Break::ClassOrTensorAttributeSet);
      }
      if (special == Special::ObjectGetAttr && count == 1) {
        // Only the plain lookup: a class's __getattr__ is not this function's business.
        PyTypeObject* type = Py_TYPE(owner);
        guard_class(type, rest[0]);
        if (!_PyType_Lookup(type, rest[0])) {
          if (PyObject* dict = instance_dict(owner)) {
            bool found = false;
            PyObject* x = read_dict(dict, dict_source(owner), rest[0], &found);
            if (found || PyErr_Occurred()) return x;
          }
          return PyObject_GenericGetAttr(owner, rest[0]);
        }
        return instance_attr(owner, rest[0]);
      }
      if (special == Special::ObjectSetAttr && count == 2) {
        if (instance_set_attr(owner, rest[0], rest[1]) < 0) return nullptr;
        Py_RETURN_NONE;
      }
      if (special == Special::ObjectDelAttr && count == 1) {
        if (instance_set_attr(owner, rest[0], nullptr) < 0) return nullptr;
        Py_RETURN_NONE;
      }
      break;
    }
    case Special::IsInstance:
      if (n == 2 && plain) {
        guard_class(Py_TYPE(args[0]));
        guard_class_check(args[1]);
        if (const Object given = held_by_program(args[0]); given.get() != args[0]) {
          PyObject* asked[] = {given.get(), args[1]};
          return call_plainly(f, asked, n, names);
        }
        if (PyTuple_Check(args[1]) && !track_contents(args[1], 4)) return nullptr;
        if (is_traced(args[0]))
          if (const int known = is_of_tensor_type(args[0], args[1]); known >= 0) return PyBool_FromLong(known);
        return call_plainly(f, args, n, names);
      }
      break;
    case Special::Iter:
      if (plain && n == (self ? 0 : 1)) return get_iter(self ? self : args[0]);
      if (plain && !self && n == 2 && !argument(args[0])) return nullptr;
      if (plain && !self && n == 2) return call_plainly(f, args, n, names);
      break;
    case Special::Next:
      if (plain && n >= (self ? 0 : 1)) {
        PyObject* iterator = self ? self : args[0];
        if (!PyIter_Check(iterator)) break;
        // By the function itself: a generator's StopIteration has what it returned.
        return may_advance(iterator) ? call_plainly(f, args, n, names) : nullptr;
      }
      break;
    case Special::Len:
      if (plain && n == (self ? 0 : 1)) {
        PyObject* x = self ? self : args[0];
        // As an int it would be a constant; as a size it may be a symbol.
        if (is_traced(x)) {
          const Object rank = Object::take(PyObject_GetAttrString(x, "ndim"));
          if (!rank) return finish_call(nullptr);
          if (PyObject_IsTrue(rank.get()) == 1) return finish_call(PyObject_CallMethod(x, "size", "i", 0));
        }
        if (is_tensor(x)) return call_plainly(f, args, n, names);
        const Py_ssize_t size = length(x);
        return size < 0 ? nullptr : PyLong_FromSsize_t(size);
      }
      break;
    case Special::TensorNew:
      if (PyObject* tensor = self ? self : args[0]; plain && is_tensor(tensor)) {
        PyObject* x = legacy_tensor(tensor, self ? args : args + 1, self ? n : n - 1);
        if (x || aborted_ || PyErr_Occurred()) return x;
      }
      break;
    case Special::NewTensor: {
      PyObject* const* rest = self ? args : args + 1;
      PyObject* tensor = self ? self : args[0];
      if (!is_tensor(tensor) || n != (self ? 1 : 2) || is_tensor(rest[0])) break;
      return tensor_of_data(tensor, rest, 1, names);
    }
    case Special::DictGet: {
      PyObject* const* rest = self ? args : args + 1;
      const Py_ssize_t count = self ? n : n - 1;
      PyObject* dict = self ? self : n > 0 ? args[0] : nullptr;
      if (!dict || !plain || count < 1 || count > 2 || !PyDict_Check(dict)) break;
      if (!guard_by_value(rest[0])) return nullptr;
      if (!is_place_key(rest[0])) break;
      bool found = false;
      PyObject* x = read_dict(dict, sources.find(dict), rest[0], &found);
      if (found || PyErr_Occurred()) return x;
      return Py_NewRef(count == 2 ? rest[1] : Py_None);
    }
    case Special::DictPop:
    case Special::DictSetDefault:
    case Special::DictUpdate: {
      PyObject* const* rest = self ? args : args + 1;
      const Py_ssize_t count = self ? n : n - 1;
      PyObject* dict = self ? self : n > 0 ? args[0] : nullptr;
      if (!dict || !PyDict_Check(dict)) break;
      const Py_ssize_t all = count + (names ? PyTuple_GET_SIZE(names) : 0);
      for (Py_ssize_t i = 0; i < all; ++i)
        if (!operand(rest[i]) || !argument(rest[i])) return nullptr;
      if (special == Special::DictUpdate ? !guard_arguments(f, self, args, n) : count > 0 && !guard_by_value(rest[0]))
        return nullptr;
      if (!PyODict_Check(dict) && sources.find(dict) >= 0) {
        if (special == Special::DictUpdate && (count == 0 || (count == 1 && PyDict_CheckExact(rest[0])))) {
          if (count == 1 && !update_keys(dict, rest[0])) return nullptr;
          for (Py_ssize_t i = count; i < all; ++i)
            if (!writes_key(dict, PyTuple_GET_ITEM(names, i - count), false) ||
                PyDict_SetItem(dict, PyTuple_GET_ITEM(names, i - count), rest[i]) < 0)
              return nullptr;
          Py_RETURN_NONE;
        }
        const bool one_key = plain && (count == 1 || count == 2) && is_place_key(rest[0]);
        if (one_key && special != Special::DictUpdate) {
          bool found = false;
          Object x = Object::take(read_dict(dict, sources.find(dict), rest[0], &found));
          if (PyErr_Occurred()) return nullptr;
          if (special == Special::DictSetDefault) {
            if (found) return x.release();
            PyObject* value = count == 2 ? rest[1] : Py_None;
            if (!writes_key(dict, rest[0], false) || PyDict_SetItem(dict, rest[0], value) < 0) return nullptr;
            return Py_NewRef(value);
          }
          if (found) {
            if (!writes_key(dict, rest[0], true) || PyDict_DelItem(dict, rest[0]) < 0) return nullptr;
            return x.release();
          }
          if (count == 2) return Py_NewRef(rest[1]);
        }
      }
      if (!writes(dict, UndoLog::Writes::Any)) return nullptr;
      return call_plainly(f, args, n, names);
    }
    case Special::Id:
      if (plain && n == 1) {
        // Where an object is, is a fact of that object. What the trace made will be somewhere else.
        PyObject* x = real_of(args[0]) ? real_of(args[0]) : args[0];
        if (!may_read_class(x)) return nullptr;
        if (x != Py_None && !PyBool_Check(x) && !PyType_Check(x) && !guard_address(x)) return nullptr;
        return call_plainly(f, &x, n, names);
      }
      break;
    case Special::Hash:
      if (plain && n == 1) {
        if (!operand(args[0]) || !argument(args[0]) || !guard_hash(args[0])) return nullptr;
        return call_with_numbers(f, args, n, names);
      }
      break;
    case Special::BuildClass: return build_class(f, args, n, names);
    case Special::Flag: {
      if (n != 0 || !plain) break;
      PyObject* x = call_plainly(f, args, n, names);
      if (!x || !PyBool_Check(x))
        return x ? (Py_DECREF(x), graph_break(Break::UnsupportedArguments, name_of_callable(f))) : nullptr;
      guard(Check::Is, sources.add(SourceKind::Flag, sources.add(SourceKind::Constant, -1, 0, f)), x);
      return x;
    }
    case Special::ContextGet:
    case Special::ContextSet:
    case Special::ContextReset: {
      PyObject* variable = self ? self : n > 0 ? args[0] : nullptr;
      PyObject* const* rest = self ? args : args + 1;
      const Py_ssize_t count = self ? n : n - 1;
      if (!variable || !plain || !PyContextVar_CheckExact(variable) || count > 1) break;
      if (special == Special::ContextGet) return context_value(variable, count == 1 ? rest[0] : nullptr);
      if (count == 1) return set_context(f, args, n, variable, special == Special::ContextSet);
      break;
    }
    case Special::AutogradFunction: {
      const Py_ssize_t all = n + (names ? PyTuple_GET_SIZE(names) : 0);
      const bool grad = torch_state().grad;
      for (Py_ssize_t i = 0; i < all; ++i) {
        if (!operand(args[i])) return nullptr;
        if (!grad || !is_tensor(args[i])) continue;
        static PyObject* const requires_grad = PyUnicode_InternFromString("requires_grad");
        const Object required = Object::take(get_attr(args[i], requires_grad));
        if (!required) return nullptr;
        if (required.get() != Py_False) return graph_break(Break::AutogradFunction);
      }
      return call_plainly(f, args, n, names);
    }
    case Special::NumPy: {
      const Py_ssize_t all = n + (names ? PyTuple_GET_SIZE(names) : 0);
      for (Py_ssize_t i = 0; i < all; ++i) {
        const bool sequence =
            PyList_CheckExact(args[i]) || (PyTuple_Check(args[i]) && !is_python_class(Py_TYPE(args[i])));
        if (is_tensor(args[i]) ||
            (!sequence && !is_symbolic(args[i]) && !is_scalar(args[i]) && !is_numpy_scalar(args[i])))
          return graph_break(Break::NumPyArguments);
        if (!operand(args[i])) return nullptr;
      }
      const HookOff off;  // numpy's own Python code
      PyObject* x = call_with_numbers(f, args, n, names);
      if (!x || is_scalar(x) || is_numpy_scalar(x)) return x;
      Py_DECREF(x);
      return graph_break(Break::NumPyArray);
    }
    case Special::Vars:
      if (plain && n == 1 && !is_tensor(args[0]) && !PyType_Check(args[0])) {
        if (!track_state(args[0])) return nullptr;
        return call_plainly(f, args, n, names);
      }
      return graph_break(Break::UnsupportedArguments, name_of_callable(f));
    default: break;
  }
  *done = false;
  return nullptr;
}

bool Tracer::may_refer(PyObject* f, PyObject* const* args, Py_ssize_t n) {
  // The class, or the `__new__` of one, whose first argument is the class.
  const bool by_new = PyCFunction_Check(f);
  PyObject* type = by_new ? reinterpret_cast<PyCFunctionObject*>(f)->m_self : f;
  if (!type || !PyType_Check(type) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), &_PyWeakref_RefType))
    return true;
  PyObject* const* rest = by_new ? args + 1 : args;
  const Py_ssize_t count = by_new ? n - 1 : n;
  if (count > 1 && rest[1] != Py_None) return graph_break(Break::WeakReferenceCallback), false;
  if (count > 0 && sources.find(real_of(rest[0]) ? real_of(rest[0]) : rest[0]) < 0)
    return graph_break(Break::WeakReferenceToNewObject), false;
  return true;
}

Object Tracer::with_fake_tensors(PyObject* x, int depth) {
  if (depth == 0 || (!PyList_Check(x) && !PyTuple_Check(x))) return Object::share(x);
  Object copy;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(x, i);
    const auto it = fake_of_.find(item);
    const Object shown = it == fake_of_.end() ? with_fake_tensors(item, depth - 1) : Object::share(it->second);
    if (!shown) return {};
    if (shown.get() == item) continue;
    if (!copy) copy = Object::take(PySequence_List(x));
    if (!copy || PyList_SetItem(copy.get(), i, Py_NewRef(shown.get())) < 0) return {};
  }
  if (!copy) return Object::share(x);
  return PyList_Check(x) ? copy : Object::take(PyList_AsTuple(copy.get()));
}

PyObject* Tracer::call_known(const Callable& known, PyObject* f, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  const Py_ssize_t all = n + (names ? PyTuple_GET_SIZE(names) : 0);
  // The object a bound function works on.
  PyObject* self = nullptr;
  if (PyCFunction_Check(f)) {
    self = reinterpret_cast<PyCFunctionObject*>(f)->m_self;
    if (self && (PyModule_Check(self) || PyType_Check(self))) self = nullptr;
  } else if (is_method_wrapper(f)) {
    const Object bound = Object::take(PyObject_GetAttrString(f, "__self__"));
    self = bound.get();
  }
  if (PyObject* x = call_with_symbolic_scalars(known, f, args, n, names); x || aborted_ || PyErr_Occurred()) return x;
  if (!self && n > 0 && PyODict_Check(args[0]) &&
      (Py_TYPE(f) == &PyMethodDescr_Type || Py_TYPE(f) == &PyWrapperDescr_Type) &&
      reinterpret_cast<PyDescrObject*>(f)->d_type == &PyDict_Type &&
      (known.effect == Effect::WritesSelf || known.special == Special::DictPop ||
       known.special == Special::DictSetDefault || known.special == Special::DictUpdate))
    return graph_break(Break::OrderedDictMethod);
  switch (known.effect) {
    case Effect::Unknown: return graph_break(break_of_unknown(f), name_of_callable(f));
    case Effect::Refused: return graph_break(break_of(known), name_of_callable(f), known.reason);
    case Effect::Special: {
      bool done = false;
      PyObject* x = call_special(known.special, f, self, args, n, names, &done);
      if (done) return x;
      break;
    }
    case Effect::Tensors: {
      if (!may_run_operator(log, sources)) return graph_break(Break::OperatorAfterWrite);
      const bool from_data = known.special == Special::FromData;
      if (from_data) {
        PyObject* x = tensor_of_integers(args, n, names);
        if (x || aborted_ || PyErr_Occurred()) return x;
      }
      std::vector<Object> kept;
      std::vector<PyObject*> given;
      for (Py_ssize_t i = 0; i < all; ++i) {
        if (!operand(args[i]) || (is_tensor(args[i]) && !lift(args[i]))) return nullptr;
        kept.push_back(with_fake_tensors(args[i], 8));
        // torch stores the numbers itself, and symbolic ones in 32 bits.
        if (kept.back() && from_data) kept.back() = Object::take(plain(kept.back().get(), 8));
        if (!kept.back()) return nullptr;
        given.push_back(kept.back().get());
      }
      given.push_back(nullptr);
      return call_plainly(f, given.data(), n, names);
    }
    case Effect::Torch: return call_plainly(f, args, n, names);
    case Effect::ReadsState: {
      PyObject* x = self ? self : n > 0 ? args[0] : nullptr;
      if (x && !track_state(x)) return nullptr;
      break;
    }
    case Effect::WritesSelf:
    case Effect::Appends: {
      PyObject* x = self ? self : n > 0 ? args[0] : nullptr;
      if (x && !is_scalar(x) && !is_tensor(x) &&
          !writes(x, known.effect == Effect::Appends ? UndoLog::Writes::Append : UndoLog::Writes::Any))
        return nullptr;
      if (known.effect == Effect::WritesSelf && !guard_arguments(f, self, args, n)) return nullptr;
      for (Py_ssize_t i = self || x == nullptr ? 0 : 1; i < all; ++i) {
        if (known.effect == Effect::Appends && (is_tensor(args[i]) || sources.find(args[i]) >= 0) &&
            !PyIter_Check(args[i]))
          continue;  // kept, not read; what extend reads is read below
        if (!operand(args[i]) || !argument(args[i])) return nullptr;
      }
      if (known.effect == Effect::Appends) {
        const char* name = PyCFunction_Check(f) ? reinterpret_cast<PyCFunctionObject*>(f)->m_ml->ml_name
                                                : reinterpret_cast<PyMethodDescrObject*>(f)->d_method->ml_name;
        if (std::strcmp(name, "extend") == 0)
          for (Py_ssize_t i = self ? 0 : 1; i < all; ++i)
            if (!operand(args[i])) return nullptr;
      }
      return call_plainly(f, args, n, names);
    }
    case Effect::Reads: break;
  }
  if (self && !operand(self)) return nullptr;
  if (!guard_arguments(f, self, args, n)) return nullptr;
  if (!may_refer(f, args, n)) return nullptr;
  for (Py_ssize_t i = 0; i < all; ++i)
    if (!operand(args[i]) || !argument(args[i])) return nullptr;
  if (known.special == Special::Number) return call_plainly(f, args, n, names);
  return call_with_numbers(f, args, n, names);
}

PyObject* Tracer::call_with_numbers(PyObject* f, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  const Py_ssize_t all = n + (names ? PyTuple_GET_SIZE(names) : 0);
  std::vector<Object> numbers;
  std::vector<PyObject*> flat;
  for (Py_ssize_t i = 0; i < all; ++i) {
    numbers.push_back(Object::take(plain(args[i])));
    if (!numbers.back()) return nullptr;
    flat.push_back(numbers.back().get());
  }
  flat.push_back(nullptr);
  return call_plainly(f, flat.data(), n, names);
}

PyObject* Tracer::call(PyObject* f, PyObject* const* args, size_t flags, PyObject* names) {
  if (aborted_) return nullptr;
  const Py_ssize_t n = PyVectorcall_NARGS(flags);
  const Py_ssize_t all = n + (names ? PyTuple_GET_SIZE(names) : 0);
  if (PyFunction_Check(f)) {
    if (says_is_compiling(f)) return PyBool_FromLong(is_compiling());
    if (says_is_dynamo_compiling(f)) return PyBool_FromLong(is_dynamo_compiling());
    if (dispatches_higher_order(f) && n > 0) return call_higher_order(args, n, names);
    if (marks_for_dynamo(f) && enters_dynamo_unless_compiling(asking_module())) Py_RETURN_NONE;
    if (PyObject* inner = is_disabled(f) ? nullptr : compiled_by_torch(f)) {
      // Compiled once: as part of this program.
      if (const int source = sources.find(f); source >= 0 && sources[source].kind != SourceKind::Constant)
        guard(Check::Is, source, f);
      const Object callable = Object::take(track_constant(inner));
      return callable ? call(callable.get(), args, flags, names) : nullptr;
    }
    if (n > 0 && gives_compiled(f)) return Py_NewRef(args[0]);
    if (PyObject* inner = hidden_from_dynamo(f)) {
      if (const int source = sources.find(f); source >= 0 && sources[source].kind != SourceKind::Constant)
        guard(Check::Is, source, f);
      if (sources.find(inner) < 0) Py_XDECREF(track_constant(inner));
      return call(inner, args, flags, names);
    }
    if (asks_for_a_break(f)) return graph_break(Break::RequestedBreak, name_of_callable(f));
    if (is_disabled(f)) return graph_break(Break::CompilingDisabled, name_of_callable(f), reason_of_disabling(f));
    return call_plainly(f, args, n, names);
  }
  if (PyMethod_Check(f)) {
    PyObject* function = PyMethod_GET_FUNCTION(f);
    if (PyFunction_Check(function) && !is_disabled(function) && !dispatches_higher_order(function))
      return call_plainly(f, args, n, names);
    std::vector<PyObject*> with_self{PyMethod_GET_SELF(f)};
    with_self.insert(with_self.end(), args, args + all);
    return call(function, with_self.data(), static_cast<size_t>(n + 1), names);
  }
  if (PyType_Check(f)) {
    if (!may_read_class(f)) return nullptr;
    auto* type = reinterpret_cast<PyTypeObject*>(f);
    if (type == &PyType_Type && all == 1)
      return Py_NewRef(is_symbolic_int(args[0]) ? reinterpret_cast<PyObject*>(&PyLong_Type)
                                                : reinterpret_cast<PyObject*>(Py_TYPE(
                                                      is_symbolic_scalar(args[0]) ? varying_value(args[0]) : args[0])));
    if (PyType_IsSubtype(type, &PyType_Type)) return graph_break(Break::ClassMade);
    if (type == &PyLong_Type && all == 1 && is_symbolic_int(args[0])) return Py_NewRef(args[0]);
    if (all == n && (type == tensor_class() || is_tensor_type(f))) {
      PyObject* x = legacy_tensor(f, args, n);
      if (x || aborted_ || PyErr_Occurred()) return x;
    }
    if (PyObject* x = call_with_symbolic_scalars(known_callable(f), f, args, n, names);
        x || aborted_ || PyErr_Occurred())
      return x;
    static PyObject* del = PyUnicode_InternFromString("__del__");
    if (is_python_class(type) && _PyType_Lookup(type, del))
      return graph_break(Break::ClassWithDel, name_of_callable(f));
    static PyObject* parts[] = {PyUnicode_InternFromString("__new__"), PyUnicode_InternFromString("__init__"),
                                PyUnicode_InternFromString("__call__")};
    for (PyObject* part : parts) guard_class(part == parts[2] ? Py_TYPE(type) : type, part);
    if (is_numpy_scalar_type(type)) {
      for (Py_ssize_t i = 0; i < all; ++i)
        if (!is_scalar(args[i]) && !is_symbolic_int(args[i]) && !is_numpy_scalar(args[i]))
          return graph_break(Break::NumPyArguments);
      return call_with_numbers(f, args, n, names);
    }
    if (known_callable(f).effect == Effect::Unknown) return graph_break(Break::ClassUnknown, name_of_callable(f));
    if (!is_python_class(type) && !may_refer(f, args, n)) return nullptr;
    if (!is_python_class(type) || type->tp_base != &PyBaseObject_Type)
      for (Py_ssize_t i = 0; i < all; ++i)
        if (!operand(args[i]) || !argument(args[i])) return nullptr;
    if (!guard_arguments(f, nullptr, args, n)) return nullptr;
    if (type == &PyUnicode_Type || type == &PyFloat_Type || type == &PySet_Type || type == &PyFrozenSet_Type ||
        type == &PyDict_Type || type == &PyComplex_Type || type == &PyBytes_Type)
      return call_with_numbers(f, args, n, names);
    return call_plainly(f, args, n, names);
  }
  if (is_partial(f) && !is_python_class(Py_TYPE(f))) {
    const Object function = Object::take(PyObject_GetAttrString(f, "func"));
    const Object bound = Object::take(PyObject_GetAttrString(f, "args"));
    const Object keywords = Object::take(PyObject_GetAttrString(f, "keywords"));
    if (!function || !bound || !keywords) return nullptr;
    if (!track_contents(bound.get(), 2) || !track_contents(keywords.get(), 2)) return nullptr;
    const Object more = Object::take(PyTuple_New(n));
    const Object named = Object::take(PyDict_Copy(keywords.get()));
    if (!more || !named) return nullptr;
    for (Py_ssize_t i = 0; i < n; ++i) PyTuple_SET_ITEM(more.get(), i, Py_NewRef(args[i]));
    for (Py_ssize_t i = n; i < all; ++i)
      if (PyDict_SetItem(named.get(), PyTuple_GET_ITEM(names, i - n), args[i]) < 0) return nullptr;
    const Object joined = Object::take(PySequence_Concat(bound.get(), more.get()));
    return joined ? call_unpacked(function.get(), joined.get(), named.get()) : nullptr;
  }
  if (PyWeakref_CheckRefExact(f) && all == 0) {
    PyObject* x = PyWeakref_GetObject(f);
    const int source = sources.find(f);
    if (source >= 0) return track(x, sources.add(SourceKind::Referent, source));
    return wrap(Py_NewRef(x));
  }
  if (is_cached_function(f)) return call_cached(f, args, n, names);
  if (PyObject* inner = wrapped_by_capture(f)) {
    // What it wraps is fixed, so that its own identity is all to guard.
    if (const int source = sources.find(f); source >= 0) guard(Check::Is, source, f);
    if (sources.find(inner) < 0) {
      PyObject* touched = track(inner, sources.add(SourceKind::Constant, -1, 0, inner));
      if (!touched) return nullptr;
      Py_DECREF(touched);
    }
    return call(inner, args, flags, names);
  }
  if (is_python_class(Py_TYPE(f))) {
    static PyObject* dunder = PyUnicode_InternFromString("__call__");
    guard_class(Py_TYPE(f), dunder);
    PyObject* method = _PyType_Lookup(Py_TYPE(f), dunder);
    if (method && PyFunction_Check(method)) {
      if (sources.find(method) < 0) Py_XDECREF(track_constant(method));
      if (!dispatches_higher_order(method)) return call_plainly(f, args, n, names);
      std::vector<PyObject*> with_self{f};
      with_self.insert(with_self.end(), args, args + all);
      return call_higher_order(with_self.data(), n + 1, names);
    }
  }
  return call_known(known_callable(f), f, args, n, names);
}

PyObject* Tracer::call_unpacked(PyObject* f, PyObject* args, PyObject* keywords) {
  if (aborted_) return nullptr;
  const Object items = unpacked(args), named = keywords ? unpacked(keywords) : Object();
  if (!items || (keywords && !named)) return nullptr;
  args = items.get();
  keywords = named.get();
  const Object tuple = Object::take(PyTuple_Check(args) ? Py_NewRef(args) : PySequence_Tuple(args));
  if (!tuple) return Operations::call_unpacked(f, args, keywords);
  std::vector<PyObject*> flat;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i) {
    PyObject* x = PyTuple_GET_ITEM(tuple.get(), i);
    const auto it = fake_of_.find(x);
    flat.push_back(it == fake_of_.end() ? x : it->second);
  }
  const size_t n = flat.size();
  Object names;
  if (keywords && PyDict_GET_SIZE(keywords) > 0) {
    names = Object::take(PyTuple_New(PyDict_GET_SIZE(keywords)));
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t at = 0, i = 0;
    while (PyDict_Next(keywords, &at, &key, &value)) {
      if (!PyUnicode_Check(key)) return Operations::call_unpacked(f, args, keywords);
      PyTuple_SET_ITEM(names.get(), i++, Py_NewRef(key));
      const auto it = fake_of_.find(value);
      flat.push_back(it == fake_of_.end() ? value : it->second);
    }
  }
  flat.push_back(nullptr);
  return call(f, flat.data(), n, names.get());
}

}  // namespace vesta::capture
