// Arithmetic on symbolic scalars, and their tensors.
#include <algorithm>

#include "capture/python/functions/functions.h"
#include "capture/python/functions/plain_objects.h"
#include "capture/python/sources/compute.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/symbolic_scalar.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture {
namespace {

constexpr int kMostComputed = 256;  // numbers that a call of a segment computes

bool is_number(PyObject* x) { return PyFloat_CheckExact(x) || PyLong_CheckExact(x) || PyBool_Check(x); }

// With ints alone these may take long and need much memory: << and **.
bool may_grow(int operation) { return operation == Compute::Binary + 3 || operation == Compute::Binary + 8; }

// Torch functions for which a number and a 0-d tensor of it are the same.
bool takes_tensor_for_number(PyObject* callable) {
  static const char* const names[] = {"add",       "sub",         "subtract", "mul",         "multiply",  "div",
                                      "divide",    "true_divide", "add_",     "sub_",        "subtract_", "mul_",
                                      "multiply_", "div_",        "divide_",  "true_divide_"};
  const std::string full = name_of_callable(callable), name = full.substr(full.find_last_of('.') + 1);
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// A 0-d tensor of floats: an operation with a number gives its type, in which it takes the number.
bool is_float_scalar(PyObject* t) {
  const Object is_float =
      Object::take(sizes_of(t).empty() ? PyObject_CallMethod(t, "is_floating_point", nullptr) : nullptr);
  const Object on_cpu = Object::take(is_float.get() == Py_True ? PyObject_GetAttr(t, "is_cpu"_name) : nullptr);
  return on_cpu.get() == Py_True;
}

bool is_class_of_numbers(PyObject* f) {
  return f == reinterpret_cast<PyObject*>(&PyFloat_Type) || f == reinterpret_cast<PyObject*>(&PyLong_Type) ||
         f == reinterpret_cast<PyObject*>(&PyBool_Type);
}

}  // namespace

int NumberModel::operand_source(PyObject* x) {
  if (is_symbolic_scalar(x)) return scalar_source(x);
  if (is_symbolic_int(x)) return symbol_source(x);
  return is_number(x) ? t_.sources.constant(x) : -1;
}

Object NumberModel::value_of(PyObject* x) const {
  if (!x || !is_symbolic_int(x)) return Object::share(x && is_symbolic_scalar(x) ? scalar_value(x) : x);
  const auto read = std::find_if(integers_.begin(), integers_.end(),
                                 [&](const IntegerRead& r) { return r.source == symbol_source(x); });
  return Object::take(read == integers_.end() ? nullptr : PyLong_FromLongLong(read->value));
}

PyObject* NumberModel::calculate(int operation, PyObject* a, PyObject* b) {
  if (t_.ended()) return Progress::stopped();
  PyObject* scalar = is_symbolic_scalar(a) ? a : b;
  for (PyObject* x : {a, b})
    if (x && !is_symbolic_scalar(x) && !is_number(x) && !is_symbolic_int(x)) return Py_NewRef(Py_NotImplemented);
  const Object left = value_of(a), right = value_of(b);
  if (!left || (b && !right) || !is_number(left.get()) || (b && !is_number(right.get())) ||
      (may_grow(operation) && !PyFloat_CheckExact(left.get()) && !PyFloat_CheckExact(right.get())))
    return specialize(scalar);
  return compute_in_calls(operation, nullptr, scalar, left.get(), right.get(), operand_source(a),
                          b ? operand_source(b) : -1);
}

PyObject* NumberModel::compute_in_calls(int operation, PyObject* f, PyObject* scalar, PyObject* left, PyObject* right,
                                        int from_left, int from_right) {
  const Object result = Object::take(computed_count_ < kMostComputed ? compute(operation, left, right, f) : nullptr);
  // An exception or a complex number is the result for this value alone.
  if (!result || !is_number(result.get()) || (left && from_left < 0) || (right && from_right < 0))
    return PyErr_Clear(), specialize(scalar);
  const int before = t_.sources.size();
  const int source = t_.sources.add(SourceKind::Computed, from_left, operation, f, from_right);
  if (source >= before) ++computed_count_;  // not the repetition of an earlier one, as in a loop
  if (PyBool_Check(result.get())) {
    t_.guards.add(Check::Is, source, result.get());
    return Py_NewRef(result.get());
  }
  // For other values it may raise, or give a number of another type.
  t_.guards.add(Check::Type, source, reinterpret_cast<PyObject*>(Py_TYPE(result.get())));
  return make_scalar(result.get(), source);
}

PyObject* NumberModel::call(const Callable& known, PyObject* f, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  const Py_ssize_t all = n + (names ? PyTuple_GET_SIZE(names) : 0);
  PyObject* found = nullptr;
  for (Py_ssize_t i = 0; i < all && !found; ++i) found = first_symbolic_scalar(args[i]);
  if (!found) return nullptr;
  if (known.effect == Effect::Tensors && all == 2 && n == 2 && takes_tensor_for_number(f) &&
      is_symbolic_scalar(args[0]) != is_symbolic_scalar(args[1])) {
    const int i = is_symbolic_scalar(args[0]) ? 0 : 1;
    PyObject* other = args[1 - i];
    const Object number = Object::take(as_tensor(args[i], other));
    if (!number || !t_.tracker.operand(other) || (is_tensor(other) && !t_.tensors.lift(other))) return nullptr;
    PyObject* replaced[] = {i == 0 ? number.get() : other, i == 0 ? other : number.get()};
    return t_.calls.plainly(f, replaced, n, names);
  }
  if ((known.of_numbers || is_class_of_numbers(f)) && all == n && n <= 2) {
    Object values[2];
    int from[2] = {-1, -1};
    for (Py_ssize_t i = 0; i < n; ++i) {
      values[i] = Object::share(is_symbolic_scalar(args[i]) ? scalar_value(args[i]) : args[i]);
      if (!is_number(values[i].get())) return specialize(found);
      from[i] = operand_source(args[i]);
    }
    return compute_in_calls(Compute::Call, f, found, values[0].get(), values[1].get(), from[0], from[1]);
  }
  if (known.effect == Effect::Tensors || known.effect == Effect::Torch) return specialize(found);
  return nullptr;
}

PyObject* NumberModel::as_tensor(PyObject* x, PyObject* other) {
  PyObject* value = scalar_value(x);
  if (!is_number(value) || PyBool_Check(value) || !is_tensor(other) || !is_data(other) ||
      !(takes_number_tensor(other, value) || is_float_scalar(other)))
    return specialize(x);
  NumberTensor& t = tensors_[scalar_source(x)];
  if (!t.fake) {
    t.real = Object::take(number_tensor(value));
    if (!t.real) return specialize(x);
    t.fake = Object::take(add_tensor_input(t.real.get(), t_.guards.source_text(scalar_source(x)), false, {}));
    if (!t.fake) return t_.graph_break(trace_failure());
  }
  if (!is_float_scalar(other)) return Py_NewRef(t.fake.get());
  const Object type = Object::take(PyObject_GetAttr(other, "dtype"_name));
  return type ? t_.tracker.finish_call(PyObject_CallMethod(t.fake.get(), "to", "O", type.get())) : nullptr;
}

int NumberModel::source_of_tensor(PyObject* tensor) const {
  for (const auto& [source, t] : tensors_)
    if (t.real.get() == tensor) return source;
  return -1;
}

std::vector<int> NumberModel::sources_of_tensors() const {
  std::vector<int> sources;
  for (const auto& [source, t] : tensors_) sources.push_back(source);
  return sources;
}

}  // namespace vesta::capture
