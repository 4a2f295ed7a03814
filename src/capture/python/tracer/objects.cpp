// Operators, items, truth, iteration, text.
#include <fmt/format.h>

#include <cstring>

#include "capture/python/hook/hook.h"
#include "capture/python/sources/compute.h"
#include "capture/python/tracer/operator_after_write.h"
#include "capture/python/tracer/tracer.h"

namespace vesta::capture {
namespace {

bool has_own_subscript(PyTypeObject* type, PyTypeObject* base) {
  return type->tp_as_mapping && base->tp_as_mapping &&
         type->tp_as_mapping->mp_subscript != base->tp_as_mapping->mp_subscript;
}
// Python code that torch runs for an operator of plain tensors is no part of the program.
template <class F>
PyObject* operate(PyObject* a, PyObject* b, F&& f) {
  if ((!is_tensor(a) && !is_tensor(b)) || !is_data(a) || !is_data(b) || are_function_modes_active()) return f();
  const HookOff off;
  return f();
}

// Addition, subtraction, multiplication and true division, in place or not.
bool is_linear(int op) { return op % 13 == 0 || op % 13 == 5 || op % 13 == 10 || op % 13 == 11; }

bool is_in_place(int op) { return op >= 13; }  // NB_INPLACE_ADD

constexpr const char* kOperators[] = {"add", "and", "floordiv", "lshift", "matmul",  "mul", "mod",
                                      "or",  "pow", "rshift",   "sub",    "truediv", "xor"};  // as NB_ADD ... NB_XOR
// Programs of more are loops written in Python: to compile what they unroll to takes longer than they run.
constexpr int64_t kMostOperators = 20'000;

constexpr const char* kComparisons[] = {"__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"};  // Py_LT ... Py_GE
constexpr int kReflected[] = {4, 5, 2, 3, 0, 1};

// What it lacks, its factory makes.
bool has_factory(PyTypeObject* type) {
  while (type && std::strcmp(type->tp_name, "collections.defaultdict") != 0) type = type->tp_base;
  return type != nullptr;
}

// Sums with symbolic numbers are made of machine integers.
bool is_large(PyObject* x) {
  if (!PyLong_CheckExact(x)) return false;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(x, &overflow);
  constexpr long long kMost = 1LL << 40;
  return overflow != 0 || value > kMost || value < -kMost;
}

}  // namespace

void Tracer::note_symbols(PyObject* x) {
  if (aborted_ || !is_symbolic(x) || PyErr_ExceptionMatches(PyExc_StopIteration)) return;
  if (const int source = symbol_source(x); source >= 0 && settings_.history) {
    // An argument itself: it alone is to be a constant.
    settings_.history->scalars[place_key(source)].asked = true;
    site_.wants_value = true;
    graph_break(Break::ChangingNumber);
    return;
  }
  restart_without_symbols();
}

PyObject* Tracer::finish_call(PyObject* result) {
  if (aborted_) {
    Py_XDECREF(result);
    return stopped();
  }
  if (Reason failure = trace_failure(); !failure.empty()) {
    Py_XDECREF(result);
    return graph_break(std::move(failure));
  }
  if (recorded_operators() > kMostOperators) {
    Py_XDECREF(result);
    return graph_break(Break::ManyOperators, std::to_string(kMostOperators));
  }
  if (!result) return nullptr;
  if (PyUnicode_Check(result) && !may_tell(result)) return Py_DECREF(result), nullptr;
  result = wrap(result);
  if (is_tensor(result) && !is_base_tensor(result)) guard_tensor_class(Py_TYPE(result));
  if (!is_scalar(result) && (where_ == root_ || PyGen_CheckExact(result))) born_.try_emplace(result, root_count_ - 1);
  return result;
}

bool Tracer::guard_address(PyObject* x) {
  const int source = sources.find(x);
  if (source < 0) return graph_break(Break::AddressOfNewObject), false;
  if (sources[source].kind != SourceKind::Constant) guard(Check::Is, source, x);
  return true;
}

bool Tracer::may_tell(PyObject* text) {
  static constexpr std::string_view kBefore = " at 0x";
  Py_ssize_t n = 0;
  const char* utf8 = PyUnicode_AsUTF8AndSize(text, &n);
  if (!utf8) return PyErr_Clear(), true;  // has surrogates
  const std::string_view all(utf8, static_cast<size_t>(n));
  for (size_t at = all.find(kBefore); at != std::string_view::npos; at = all.find(kBefore, at + 1)) {
    const auto address = std::strtoull(utf8 + at + kBefore.size(), nullptr, 16);
    if (!guard_address(reinterpret_cast<PyObject*>(address))) return false;
  }
  return true;
}

PyObject* Tracer::plain(PyObject* x, int depth) {
  if (is_symbolic_scalar(x)) return specialize(x);
  if (is_symbolic_int(x)) {
    const HookOff off;
    return finish_call(PyNumber_Index(x));
  }
  if (depth == 0) return Py_NewRef(x);
  const bool size = std::strcmp(Py_TYPE(x)->tp_name, "torch.Size") == 0;
  if (PyTuple_CheckExact(x) || PyList_CheckExact(x) || size) {
    const bool tuple = !PyList_CheckExact(x);
    const Py_ssize_t n = tuple ? PyTuple_GET_SIZE(x) : PyList_GET_SIZE(x);
    std::vector<Object> items;
    bool same = true;
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* item = tuple ? PyTuple_GET_ITEM(x, i) : PyList_GET_ITEM(x, i);
      items.push_back(Object::take(plain(item, depth - 1)));
      if (!items.back()) return nullptr;
      same &= items.back().get() == item;
    }
    if (same) return Py_NewRef(x);
    PyObject* out = tuple ? PyTuple_New(n) : PyList_New(n);
    for (Py_ssize_t i = 0; out && i < n; ++i) {
      if (tuple)
        PyTuple_SET_ITEM(out, i, items[static_cast<size_t>(i)].release());
      else
        PyList_SET_ITEM(out, i, items[static_cast<size_t>(i)].release());
    }
    if (!size || !out) return out;
    PyObject* sized = PyObject_CallOneArg(reinterpret_cast<PyObject*>(Py_TYPE(x)), out);
    Py_DECREF(out);
    return sized;
  }
  if (PyDict_CheckExact(x)) {
    Object out;
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    while (PyDict_Next(x, &at, &key, &value)) {
      const Object item = Object::take(plain(value, depth - 1));
      if (!item) return nullptr;
      if (item.get() == value) continue;
      if (!out) out = Object::take(PyDict_Copy(x));
      if (!out || PyDict_SetItem(out.get(), key, item.get()) < 0) return nullptr;
    }
    return Py_NewRef(out ? out.get() : x);
  }
  return Py_NewRef(x);
}

void Tracer::guard_methods(PyObject* x, std::initializer_list<std::string> names) {
  if (is_tensor(x) || is_symbolic(x) || !is_python_class(Py_TYPE(x))) return;
  for (const std::string& text : names)
    if (const Object name = Object::take(PyUnicode_InternFromString(text.c_str()))) guard_class(Py_TYPE(x), name.get());
}

PyObject* Tracer::binary(int op, PyObject* a, PyObject* b) {
  if (!operand(a) || !operand(b)) return nullptr;
  if (is_symbolic_scalar(a) || is_symbolic_scalar(b)) {
    PyObject* x = is_symbolic_scalar(a) ? a : b;
    PyObject* other = x == a ? b : a;
    if (is_tensor(other)) {
      if (!is_linear(op)) return specialize(x);
      const Object number = Object::take(number_as_tensor(x, other));
      return number ? binary(op, x == a ? number.get() : a, x == b ? number.get() : b) : nullptr;
    }
    PyObject* result = calculate(op % 13, a, b);
    if (result != Py_NotImplemented) return result;
    Py_DECREF(result);
    if (is_scalar(other)) return specialize(x);
  }
  const std::string name = kOperators[op % 13];
  guard_methods(a, {"__" + name + "__", is_in_place(op) ? "__i" + name + "__" : "__r" + name + "__"});
  guard_methods(b, {"__r" + name + "__"});
  if ((is_symbolic_int(a) && is_large(b)) || (is_symbolic_int(b) && is_large(a))) {
    const Object left = Object::take(plain(a, 0)), right = Object::take(plain(b, 0));
    return left && right ? finish_call(Operations::binary(op, left.get(), right.get())) : nullptr;
  }
  if (PyUnicode_Check(a) && !PyUnicode_Check(b)) {  // "%d" % n
    const Object tuple = Object::take(PyTuple_Check(b) && !PyTuple_CheckExact(b) ? PySequence_List(b) : nullptr);
    const Object exact = Object::take(tuple ? PyList_AsTuple(tuple.get()) : Py_NewRef(b));
    const Object text = Object::take(plain(exact.get()));
    return text ? finish_call(Operations::binary(op, a, text.get() == exact.get() ? b : text.get())) : nullptr;
  }
  if (is_in_place(op) && (PyList_Check(a) || PyAnySet_Check(a) || PyDict_Check(a)) && !writes(a, UndoLog::Writes::Any))
    return nullptr;
  return finish_call(operate(a, b, [&] { return Operations::binary(op, a, b); }));
}

PyObject* Tracer::unary(Unary op, PyObject* x) {
  if (op == Unary::Not) {
    const int truth = is_true(x);
    return truth < 0 ? nullptr : PyBool_FromLong(!truth);
  }
  if (!operand(x)) return nullptr;
  PyObject* result = Operations::unary(op, x);
  if (!result) note_symbols(x);
  return finish_call(result);
}

PyObject* Tracer::compare(int op, PyObject* a, PyObject* b) {
  if (!operand(a) || !operand(b)) return nullptr;
  if (is_symbolic_scalar(a) || is_symbolic_scalar(b)) {
    PyObject* result = calculate(Compute::Compare + op, a, b);
    if (result != Py_NotImplemented) return result;
    Py_DECREF(result);
    if (is_scalar(a) || is_scalar(b) || is_tensor(a) || is_tensor(b)) return specialize(is_symbolic_scalar(a) ? a : b);
  }
  for (PyObject* x : {a, b}) guard_methods(x, {kComparisons[op], kComparisons[kReflected[op]], "__eq__"});
  if (!guard_comparison(a, b)) return nullptr;
  if ((is_symbolic_int(a) && is_large(b)) || (is_symbolic_int(b) && is_large(a))) {
    const Object left = Object::take(plain(a, 0)), right = Object::take(plain(b, 0));
    return left && right ? finish_call(Operations::compare(op, left.get(), right.get())) : nullptr;
  }
  PyObject* result = finish_call(operate(a, b, [&] { return Operations::compare(op, a, b); }));
  if (!result || !is_symbolic_bool(result)) return result;
  // The program would see that it is no bool: as an index, by its type, by identity.
  const Object symbolic = Object::take(result);
  const HookOff off;
  const int truth = PyObject_IsTrue(result);
  return finish_call(truth < 0 ? nullptr : PyBool_FromLong(truth));
}

int Tracer::is_same(PyObject* a, PyObject* b) {
  if (aborted_) return -1;
  if (a == b) return 1;
  if (is_symbolic_scalar(a) && is_symbolic_scalar(b)) return specialize(a), -1;
  auto number = [](PyObject* x) { return is_symbolic(x) || PyLong_CheckExact(x); };
  if ((is_scalar(a) && is_scalar(b) && same_scalar(a, b)) ||
      (number(a) && number(b) && (is_symbolic(a) || is_symbolic(b))))
    return fail(Break::IdentityOfEqualNumbers);
  auto source = [&](PyObject* x) { return sources.find(real_of(x) ? real_of(x) : x); };
  const int left = source(a), right = source(b);
  if (left >= 0 && right >= 0 &&
      (sources[left].kind != SourceKind::Constant || sources[right].kind != SourceKind::Constant))
    guard(Check::Different, left, nullptr, right);
  return 0;
}

int Tracer::is_instance(PyObject* x, PyObject* type) {
  if (aborted_) return -1;
  guard_class(Py_TYPE(x));
  guard_class_check(type);
  return finish_status(PyObject_IsInstance(held_by_program(x).get(), type));
}

void Tracer::guard_class_check(PyObject* classes) {
  static PyObject* const name = PyUnicode_InternFromString("__instancecheck__");
  if (!may_read_class(classes)) return;
  if (PyType_Check(classes) && !PyType_CheckExact(classes)) guard_class(Py_TYPE(classes), name);
  for (Py_ssize_t i = 0; PyTuple_Check(classes) && i < PyTuple_GET_SIZE(classes); ++i)
    guard_class_check(PyTuple_GET_ITEM(classes, i));
}

Object Tracer::held_by_program(PyObject* x) const {
  if (is_symbolic_int(x)) return Object::take(PyLong_FromLong(2));
  return Object::share(is_symbolic_scalar(x) ? varying_value(x) : real_of(x) ? real_of(x) : x);
}

int Tracer::changes(PyObject* x) {
  if (aborted_) return -1;
  if (sources.find(x) < 0) return 0;
  if (PyIter_Check(x)) return is_c_iterator(x) ? fail(Break::OuterIterator) : 0;
  return writes(x, UndoLog::Writes::Append) ? 0 : -1;
}

int Tracer::contains(PyObject* container, PyObject* x) {
  if (!guard_by_value(x)) return -1;
  if (PyDict_Check(container) && !is_python_class(Py_TYPE(container)) && is_place_key(x)) {
    const int source = sources.find(container);
    if (source >= 0) {
      const int found = PyDict_Contains(container, x);
      if (found < 0) return -1;
      if ((log.before(container, x) != nullptr) == (found == 1))
        guard(found ? Check::Present : Check::Absent, sources.add(SourceKind::DictValue, source, 0, x));
      return found;
    }
  }
  if (!operand(container) || !operand(x)) return -1;
  const bool is_searched = PyList_Check(container) || PyTuple_Check(container);
  if (is_searched && !is_scalar(x) && !is_tensor(x) && !guard_by_value(container)) return -1;
  return finish_status(Operations::contains(container, x));
}

int Tracer::is_true(PyObject* x) {
  if (aborted_) return -1;
  if (PyBool_Check(x) || is_scalar(x) || is_symbolic_scalar(x)) return PyObject_IsTrue(x);
  if (PyTuple_Check(x) || PyList_Check(x) || PyDict_Check(x) || PyAnySet_Check(x)) {
    if (!track_length(x)) return -1;
  }
  if (is_python_class(Py_TYPE(x))) {
    static PyObject* names[] = {PyUnicode_InternFromString("__bool__"), PyUnicode_InternFromString("__len__")};
    for (PyObject* name : names) guard_class(Py_TYPE(x), name);
  } else if (!is_tensor(x) && !is_symbolic(x) && !is_known_class(Py_TYPE(x)) && !PyType_Check(x)) {
    PyTypeObject* t = Py_TYPE(x);
    if ((t->tp_as_number && t->tp_as_number->nb_bool) || (t->tp_as_mapping && t->tp_as_mapping->mp_length) ||
        (t->tp_as_sequence && t->tp_as_sequence->sq_length))
      return fail(Break::TruthUnknown, t->tp_name);
  }
  return finish_status(PyObject_IsTrue(x));
}

Py_ssize_t Tracer::length(PyObject* x) {
  if (aborted_) return -1;
  if (!PyTuple_Check(x) && !PyList_Check(x) && !PyDict_Check(x) && !PyAnySet_Check(x)) {
    if (!operand(x)) return -1;
  } else if (!track_length(x)) {
    return -1;
  }
  if (is_python_class(Py_TYPE(x))) guard_class(Py_TYPE(x));
  return finish_status(Operations::length(x));
}

PyObject* Tracer::missing_item(PyObject* dict, int source, PyObject* key) {
  static PyObject* const missing = PyUnicode_InternFromString("__missing__");
  static PyObject* const name = PyUnicode_InternFromString("default_factory");
  if (PyObject* f = _PyType_Lookup(Py_TYPE(dict), missing); f && PyFunction_Check(f))
    return graph_break(Break::DefaultDictMethod);
  constexpr int kFactory = sizeof(PyDictObject);  // the one member that it has besides a dict's
  PyObject* now = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(dict) + kFactory);
  if (!now) return finish_call(PyObject_GetItem(dict, key));
  const Object factory = Object::take(track(now, sources.add(SourceKind::Member, source, kFactory, name)));
  if (!factory) return nullptr;
  if (factory.get() == Py_None) return finish_call(PyObject_GetItem(dict, key));
  Object x = Object::take(call(factory.get(), nullptr, 0, nullptr));
  if (!x || !writes_key(dict, key, false) || PyDict_SetItem(dict, key, x.get()) < 0) return nullptr;
  return x.release();
}

PyObject* Tracer::get_item(PyObject* container, PyObject* key) {
  if (aborted_ || (PyDict_Check(container) && !guard_by_value(key))) return nullptr;
  Object number;
  if (PyDict_Check(container) && !is_scalar(key)) {
    number = Object::take(plain(key));
    if (!number) return nullptr;
    key = number.get();
  }
  PyTypeObject* type = Py_TYPE(container);
  const int source = sources.find(container);
  const bool written = log.find(container) != nullptr;
  if (source >= 0 && !written && PyLong_CheckExact(key) &&
      ((PyTuple_Check(container) && !has_own_subscript(type, &PyTuple_Type)) ||
       (PyList_Check(container) && !has_own_subscript(type, &PyList_Type)))) {
    if (!track_length(container)) return nullptr;
    const Py_ssize_t n = PyList_Check(container) ? PyList_GET_SIZE(container) : PyTuple_GET_SIZE(container);
    Py_ssize_t i = PyLong_AsSsize_t(key);
    if (i == -1 && PyErr_Occurred()) PyErr_Clear();
    if (i < 0) i += n;
    if (i >= 0 && i < n)
      return track(PyList_Check(container) ? PyList_GET_ITEM(container, i) : PyTuple_GET_ITEM(container, i),
                   sources.add(SourceKind::SequenceItem, source, static_cast<int>(i)));
    return PyObject_GetItem(container, key);
  }
  if (PyDict_Check(container) && !has_own_subscript(type, &PyDict_Type) && is_place_key(key)) {
    guard_class(type);
    bool found = false;
    PyObject* x = read_dict(container, source, key, &found);
    if (found || PyErr_Occurred()) return x;
    if (source >= 0 && has_factory(type)) return missing_item(container, source, key);
    if (type != &PyDict_Type && !writes(container, UndoLog::Writes::Any)) return nullptr;  // __missing__ may add it
    return finish_call(PyObject_GetItem(container, key));
  }
  if (PyType_Check(container)) {
    if (!operand(key)) return nullptr;
    return finish_call(PyObject_GetItem(container, key));
  }
  // One that is missing would be made, under the fake tensor's hash.
  if (source >= 0 && PyDict_Check(container) && type != &PyDict_Type && is_tensor(key))
    return graph_break(Break::TensorKey);
  if (!has_known_items(container, key) && !operand(container)) return nullptr;
  if (!operand(key)) return nullptr;
  return finish_call(PyObject_GetItem(container, key));
}

bool Tracer::has_known_items(PyObject* x, PyObject* key) const {
  if (!PyLong_CheckExact(key) || !(PyList_CheckExact(x) || PyTuple_CheckExact(x))) return false;
  const UndoLog::Entry* e = log.find(x);
  return sources.find(x) < 0 || (e && !e->only_appended);
}

bool Tracer::writes_key(PyObject* dict, PyObject* key, bool deletes) {
  if (const int source = sources.find(dict); deletes && source >= 0)
    guard(log.before(dict, key) ? Check::Present : Check::Absent, sources.add(SourceKind::DictValue, source, 0, key));
  return log.dict(dict, key) == 0;
}

bool Tracer::writes(PyObject* x, UndoLog::Writes kind) {
  const int source = sources.find(x);
  int status = 0;
  if (PyDict_Check(x)) {
    if (source >= 0 && !track_contents(x, 1)) return false;
    if (source >= 0 && !log.find(x) && has_keys_of_program(x)) return graph_break(Break::KeysWithHashWritten), false;
    status = log.dict(x);
  } else if (PyList_Check(x)) {
    const UndoLog::Entry* e = log.find(x);
    if (kind == UndoLog::Writes::Any && source >= 0 && (!e || e->only_appended) && !track_contents(x, 1)) return false;
    status = log.list(x, kind);
  } else if (PyAnySet_Check(x)) {
    if (source >= 0 && !log.find(x) && !track_contents(x, 1)) return false;
    status = log.set(x);
  } else if (std::string_view(Py_TYPE(x)->tp_name) == "collections.deque" || is_python_class(Py_TYPE(x))) {
    if (source >= 0) return fail(Break::ObjectChanged, Py_TYPE(x)->tp_name), false;
  } else if (source >= 0) {
    return fail(Break::ObjectChanged, Py_TYPE(x)->tp_name), false;
  }
  return status == 0;
}

int Tracer::set_item(PyObject* container, PyObject* key, PyObject* value) {
  if (aborted_) return -1;
  if (PyDict_Check(container) && !guard_by_value(key)) return -1;
  if (PyDict_Check(container) && sources.find(container) >= 0 && is_hashed_by_program(key))
    return fail(Break::KeysWithHashWritten);
  Object number;
  if (PyDict_Check(container) && !is_scalar(key)) {
    number = Object::take(plain(key));
    if (!number) return -1;
    key = number.get();
  }
  if (PyDict_Check(container) && !is_python_class(Py_TYPE(container)) && is_place_key(key)) {
    if (!writes_key(container, key, value == nullptr)) return -1;
    return Operations::set_item(container, key, value);
  }
  if (!is_tensor(container)) {
    if (!has_known_items(container, key) && !operand(container)) return -1;
    if (!is_python_class(Py_TYPE(container)) || PyDict_Check(container) || PyList_Check(container)) {
      if (!writes(container, UndoLog::Writes::Any)) return -1;
    }
  }
  if (is_tensor(container) && !may_run_operator(log, sources)) return fail(Break::OperatorAfterWrite);
  if (!operand(key) || (value && is_tensor(container) && !operand(value))) return -1;
  if (value && is_tensor(container) && is_symbolic_scalar(value)) {
    number = Object::take(number_as_tensor(value, container));
    if (!number) return -1;
    value = number.get();
  }
  return finish_status(Operations::set_item(container, key, value));
}

PyObject* Tracer::get_iter(PyObject* x) {
  if (!operand(x)) return nullptr;
  static PyObject* iter = PyUnicode_InternFromString("__iter__");
  guard_class(Py_TYPE(x), iter);
  if (PyIter_Check(x) && sources.find(x) >= 0) return Operations::get_iter(x);
  return finish_call(Operations::get_iter(x));
}

bool Tracer::may_advance(PyObject* iterator) {
  if (aborted_) return false;
  if (sources.find(iterator) >= 0 && is_c_iterator(iterator)) return graph_break(Break::OuterIterator), false;
  return operand(iterator);
}

PyObject* Tracer::next(PyObject* iterator) {
  if (!may_advance(iterator)) return nullptr;
  PyObject* x = Operations::next(iterator);
  if (!x && !aborted_ && trace_failure().empty()) return nullptr;
  return finish_call(x);
}

int Tracer::unpack(PyObject* x, int before, int after, PyObject** out) {
  if (aborted_) return -1;
  if (is_c_iterator(x) && sources.find(x) >= 0) return fail(Break::OuterIterator);
  const int source = sources.find(x);
  if (source >= 0 && after < 0 && !log.find(x) && (PyTuple_CheckExact(x) || PyList_CheckExact(x)) &&
      PySequence_Fast_GET_SIZE(x) == before) {
    if (!track_length(x)) return -1;
    for (int i = 0; i < before; ++i) {
      out[i] = track(PySequence_Fast_GET_ITEM(x, i), sources.add(SourceKind::SequenceItem, source, i));
      if (out[i]) continue;
      while (i-- > 0) Py_DECREF(out[i]);
      return -1;
    }
    return 0;
  }
  if (!operand(x)) return -1;
  if (finish_status(Operations::unpack(x, before, after, out)) < 0) return -1;
  const int n = before + (after < 0 ? 0 : 1 + after);
  for (int i = 0; i < n; ++i) out[i] = wrap(out[i]);
  return 0;
}

PyObject* Tracer::format(PyObject* x, PyObject* spec) {
  if (is_tensor(x)) return graph_break(Break::TensorText);
  if (!operand(x)) return nullptr;
  const Object number = Object::take(plain(x));
  return number ? finish_call(Operations::format(number.get(), spec)) : nullptr;
}

PyObject* Tracer::convert(PyObject* x, Conversion kind) {
  if (is_tensor(x)) return graph_break(Break::TensorText);
  if (!operand(x)) return nullptr;
  const Object number = Object::take(plain(x));
  return number ? finish_call(Operations::convert(number.get(), kind)) : nullptr;
}

PyObject* Tracer::join(PyObject* const* pieces, int n) {
  for (int i = 0; i < n; ++i)
    if (is_symbolic_scalar(pieces[i])) return specialize(pieces[i]);
  return Operations::join(pieces, n);
}

int Tracer::extend_list(PyObject* list, PyObject* iterable) {
  const Object items = unpacked(iterable);
  return items ? finish_status(Operations::extend_list(list, items.get())) : -1;
}

PyObject* Tracer::list_to_tuple(PyObject* list) {
  // After a break in the middle of a display it was there before.
  return operand(list) ? Operations::list_to_tuple(list) : nullptr;
}

int Tracer::update_set(PyObject* set, PyObject* iterable) {
  if (!operand(iterable) || !guard_by_value(iterable)) return -1;
  return finish_status(Operations::update_set(set, iterable));
}

int Tracer::update_dict(PyObject* dict, PyObject* mapping) {
  const Object items = unpacked(mapping);
  return items ? finish_status(Operations::update_dict(dict, items.get())) : -1;
}

int Tracer::merge_keywords(PyObject* callable, PyObject* dict, PyObject* mapping) {
  const Object items = unpacked(mapping);
  return items ? finish_status(Operations::merge_keywords(callable, dict, items.get())) : -1;
}

}  // namespace vesta::capture
