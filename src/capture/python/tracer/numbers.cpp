// Numbers and texts that change from call to call.
#include <algorithm>

#include "capture/python/sources/compute.h"
#include "capture/python/tracer/tracer.h"

namespace vesta::capture {
namespace {

constexpr size_t kMostConstants = 4;  // of a place whose value is asked for; past it, who asks is a break
constexpr int kMostComputed = 256;    // of a segment

bool is_number(PyObject* x) { return PyFloat_CheckExact(x) || PyLong_CheckExact(x) || PyBool_Check(x); }

// With ints alone these may take long, and much memory.
bool may_grow(int operation) {
  return operation == Compute::Binary + 3 || operation == Compute::Binary + 8;  // <<, **
}

std::string last_name(PyObject* callable) {
  const std::string name = name_of_callable(callable);
  return name.substr(name.find_last_of('.') + 1);
}

// Operators that treat a number and a 0-d tensor of it alike.
bool takes_tensor_for_number(PyObject* callable) {
  static const char* const names[] = {"add",       "sub",         "subtract", "mul",         "multiply",  "div",
                                      "divide",    "true_divide", "add_",     "sub_",        "subtract_", "mul_",
                                      "multiply_", "div_",        "divide_",  "true_divide_"};
  const std::string name = last_name(callable);
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool is_function_of_numbers(PyObject* f) {
  if (f == reinterpret_cast<PyObject*>(&PyFloat_Type) || f == reinterpret_cast<PyObject*>(&PyLong_Type) ||
      f == reinterpret_cast<PyObject*>(&PyBool_Type))
    return true;
  if (!PyCFunction_Check(f)) return false;
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(f)->m_module;
  if (!module || !PyUnicode_Check(module)) return false;
  if (PyUnicode_CompareWithASCIIString(module, "math") == 0) return true;
  const std::string name = last_name(f);
  return PyUnicode_CompareWithASCIIString(module, "builtins") == 0 && (name == "abs" || name == "round");
}

}  // namespace

bool Tracer::is_constant(ScalarHistory& history, PyObject* x) {
  for (const Object& c : history.constants)
    if (same_scalar(c.get(), x)) return true;
  if (history.constants.size() >= kMostConstants && !settings_.whole) return false;
  history.constants.push_back(Object::share(x));
  return true;
}

PyObject* Tracer::track_scalar(PyObject* x, int source) {
  const bool fixed = !settings_.history || settings_.dynamic == std::optional<bool>(false) ||
                     sources[source].kind == SourceKind::Constant;
  if (!fixed) {
    const std::string name = place_key(source);
    ScalarHistory& history = settings_.history->scalars[name];
    if (history.last && !same_scalar(history.last.get(), x)) history.changed = true;
    history.last = Object::share(x);
    // A float that an instruction has left on the stack is the result of a break: a tensor's item, most often.
    const bool is_result = sources[source].kind == SourceKind::Local &&
                           sources[source].index >= code_of(root_)->co_nlocalsplus && PyFloat_CheckExact(x);
    if ((history.changed || is_result) &&
        ((PyFloat_CheckExact(x) && !history.asked && !exact_) || !is_constant(history, x))) {
      if (exact_) return graph_break(Break::ChangingNumberInContainer);
      guard(Check::Type, source, reinterpret_cast<PyObject*>(Py_TYPE(x)));
      symbolic_scalar_places_[source] = name;
      return symbolic_scalar(x, source);
    }
  }
  guard(Check::Equals, source, x);
  return Py_NewRef(x);
}

PyObject* Tracer::symbolic_scalar(PyObject* value, int source) {
  PyObject* x = make_symbolic_scalar(value, source);
  if (x && where_ == root_) {
    sources.keep(x);
    born_.try_emplace(x, root_count_ - 1);
  }
  return x;
}

PyObject* Tracer::specialize(PyObject* x) {
  if (aborted_) return stopped();
  std::vector<int> open{varying_source(x)};
  bool again = false;
  while (!open.empty()) {
    const int s = open.back();
    open.pop_back();
    if (s < 0) continue;
    if (const auto it = symbolic_scalar_places_.find(s); it != symbolic_scalar_places_.end()) {
      ScalarHistory& history = settings_.history->scalars[it->second];
      again |= !history.asked;
      history.asked = true;
    } else if (sources[s].kind == SourceKind::Computed) {
      open.insert(open.end(), {sources[s].parent, sources[s].other});
    }
  }
  site_.wants_value = again;
  return graph_break(Break::ChangingNumber);
}

int Tracer::operand_source(PyObject* x) {
  if (is_symbolic_scalar(x)) return varying_source(x);
  if (is_symbolic_int(x)) return symbol_source(x);
  return is_number(x) ? sources.add(SourceKind::Constant, -1, 0, x) : -1;
}

PyObject* Tracer::calculate(int operation, PyObject* a, PyObject* b) {
  if (aborted_) return stopped();
  PyObject* asked = is_symbolic_scalar(a) ? a : b;
  auto value = [&](PyObject* x) -> Object {
    if (x && is_symbolic_int(x)) {
      const auto read = std::find_if(integers.begin(), integers.end(),
                                     [&](const IntegerRead& r) { return r.source == symbol_source(x); });
      return Object::take(read == integers.end() ? nullptr : PyLong_FromLongLong(read->value));
    }
    return Object::share(x && is_symbolic_scalar(x) ? varying_value(x) : x);
  };
  if (b && !is_symbolic_scalar(b) && !is_number(b) && !is_symbolic_int(b)) return Py_NewRef(Py_NotImplemented);
  if (!is_symbolic_scalar(a) && !is_number(a) && !is_symbolic_int(a)) return Py_NewRef(Py_NotImplemented);
  const Object left = value(a), right = value(b);
  if (!left || (b && !right) || !is_number(left.get()) || (b && !is_number(right.get())) ||
      computed_ >= kMostComputed ||
      (may_grow(operation) && !PyFloat_CheckExact(left.get()) && !PyFloat_CheckExact(right.get())))
    return specialize(asked);
  const int l = operand_source(a), r = b ? operand_source(b) : -1;
  const Object result = Object::take(compute(operation, left.get(), right.get(), nullptr));
  // An exception, a complex number: of this value alone.
  if (!result || !is_number(result.get()) || l < 0 || (b && r < 0)) return PyErr_Clear(), specialize(asked);
  return computed(sources.add(SourceKind::Computed, l, operation, nullptr, r), result.get());
}

PyObject* Tracer::computed(int source, PyObject* result) {
  ++computed_;
  if (!PyBool_Check(result)) return symbolic_scalar(result, source);
  guard(Check::Is, source, result);
  return Py_NewRef(result);
}

PyObject* Tracer::call_with_symbolic_scalars(const Callable& known, PyObject* f, PyObject* const* args, Py_ssize_t n,
                                             PyObject* names) {
  const Py_ssize_t all = n + (names ? PyTuple_GET_SIZE(names) : 0);
  PyObject* found = nullptr;
  for (Py_ssize_t i = 0; i < all && !found; ++i) found = first_symbolic_scalar(args[i]);
  if (!found) return nullptr;
  if (known.effect == Effect::Tensors && all == 2 && n == 2 && takes_tensor_for_number(f) &&
      is_symbolic_scalar(args[0]) != is_symbolic_scalar(args[1])) {
    const int i = is_symbolic_scalar(args[0]) ? 0 : 1;
    const Object number = Object::take(number_as_tensor(args[i], args[1 - i]));
    if (!number) return nullptr;
    PyObject* replaced[] = {i == 0 ? number.get() : args[0], i == 0 ? args[1] : number.get()};
    return operand(args[1 - i]) && (!is_tensor(args[1 - i]) || lift(args[1 - i])) ? calls.plainly(f, replaced, n, names)
                                                                                  : nullptr;
  }
  if (is_function_of_numbers(f) && all == n && n <= 2) {
    Object values[2];
    int from[2] = {-1, -1};
    for (Py_ssize_t i = 0; i < n; ++i) {
      values[i] = Object::share(is_symbolic_scalar(args[i]) ? varying_value(args[i]) : args[i]);
      if (!is_number(values[i].get())) return specialize(found);
      from[i] = operand_source(args[i]);
    }
    const Object result =
        Object::take(computed_ < kMostComputed ? compute(Compute::Call, values[0].get(), values[1].get(), f) : nullptr);
    if (!result || !is_number(result.get())) return PyErr_Clear(), specialize(found);
    return computed(sources.add(SourceKind::Computed, from[0], Compute::Call, f, from[1]), result.get());
  }
  if (known.effect == Effect::Tensors || known.effect == Effect::Torch) return specialize(found);
  return nullptr;
}

PyObject* Tracer::number_as_tensor(PyObject* x, PyObject* other) {
  PyObject* value = varying_value(x);
  if (!is_number(value) || PyBool_Check(value) || !is_tensor(other) || !is_data(other) ||
      !takes_number_tensor(other, value))
    return specialize(x);
  NumberTensor& t = number_tensors_[varying_source(x)];
  if (!t.fake) {
    t.real = Object::take(number_tensor(value));
    if (!t.real) return specialize(x);
    t.fake = Object::take(add_tensor_input(t.real.get(), place(varying_source(x)), false, {}));
    if (!t.fake) return graph_break(trace_failure());
  }
  return Py_NewRef(t.fake.get());
}

int Tracer::number_source(PyObject* tensor) const {
  for (const auto& [source, t] : number_tensors_)
    if (t.real.get() == tensor) return source;
  return -1;
}

}  // namespace vesta::capture
