#include "capture/python/tracer/operator_model.h"

#include <string>

#include "capture/python/functions/functions.h"
#include "capture/python/functions/plain_objects.h"
#include "capture/python/hook/hook.h"
#include "capture/python/interpreter/branches.h"
#include "capture/python/sources/compute.h"
#include "capture/python/tensors/assumed_truth.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/symbolic_scalar.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/class_sets.h"
#include "capture/python/values/classes.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture {
namespace {

constexpr int kInPlace = 13;  // NB_INPLACE_ADD
constexpr int kPower = 8;     // NB_POWER
constexpr const char* kOperators[] = {"add", "and", "floordiv", "lshift", "matmul",  "mul", "mod",
                                      "or",  "pow", "rshift",   "sub",    "truediv", "xor"};  // as NB_ADD ... NB_XOR
constexpr const char* kComparisons[] = {"__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"};  // Py_LT ... Py_GE
constexpr int kReflected[] = {4, 5, 2, 3, 0, 1};

// Addition, subtraction, multiplication and true division, in place or not.
bool is_linear(int op) {
  const int kind = op % kInPlace;
  return kind == 0 || kind == 5 || kind == 10 || kind == 11;
}

// An operator of plain tensors is PyTorch's: the Python code by which PyTorch runs it belongs to no program.
template <class F>
PyObject* operate(PyObject* a, PyObject* b, F&& f) {
  if ((!is_tensor(a) && !is_tensor(b)) || !is_data(a) || !is_data(b) || are_function_modes_active()) return f(a, b);
  const HookOff off;
  return f(a, b);
}

// Symbolic integers hold 64 bits.
bool is_large(PyObject* x) {
  if (!PyLong_CheckExact(x)) return false;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(x, &overflow);
  constexpr long long kMost = 1LL << 40;
  return overflow != 0 || value > kMost || value < -kMost;
}

}  // namespace

template <class F>
PyObject* OperatorModel::finish(PyObject* a, PyObject* b, F&& f) {
  if (!may_operate_on(t_, {a, b})) return nullptr;
  if (!(is_symbolic_int(a) && is_large(b)) && !(is_symbolic_int(b) && is_large(a)))
    return t_.tracker.finish_call(operate(a, b, f));
  const Object left = Object::take(t_.numbers.plain(a, 0)), right = Object::take(t_.numbers.plain(b, 0));
  return left && right ? t_.tracker.finish_call(f(left.get(), right.get())) : nullptr;
}

PyObject* OperatorModel::binary(int op, PyObject* a, PyObject* b) {
  if (!t_.tracker.operand(a) || !t_.tracker.operand(b)) return nullptr;
  if (is_symbolic_scalar(a) || is_symbolic_scalar(b)) {
    PyObject* x = is_symbolic_scalar(a) ? a : b;
    PyObject* other = x == a ? b : a;
    if (is_tensor(other)) {
      // A power of or with a 0-d tensor is of that tensor's type, as with the number.
      if (!is_linear(op) && !(op % kInPlace == kPower && sizes_of(other).empty())) return t_.numbers.specialize(x);
      const Object number = Object::take(t_.numbers.as_tensor(x, other));
      return number ? binary(op, x == a ? number.get() : a, x == b ? number.get() : b) : nullptr;
    }
    PyObject* result = t_.numbers.calculate(op % kInPlace, a, b);
    if (result != Py_NotImplemented) return result;
    Py_DECREF(result);
    if (is_scalar(other)) return t_.numbers.specialize(x);
  }
  const std::string name = kOperators[op % kInPlace];
  const bool in_place = op >= kInPlace;
  t_.guards.add_methods(a, {"__" + name + "__", "__" + std::string(in_place ? "i" : "r") + name + "__"});
  t_.guards.add_methods(b, {"__r" + name + "__"});
  auto python = [&](PyObject* left, PyObject* right) { return t_.python.binary(op, left, right); };
  if (PyUnicode_Check(a) && !PyUnicode_Check(b)) return format_old(op, a, b);
  if (in_place && is_container(a) && !PyTuple_Check(a) && !t_.containers.before_write(a, UndoLog::Writes::Any))
    return nullptr;
  return finish(a, b, python);
}

PyObject* OperatorModel::format_old(int op, PyObject* text, PyObject* values) {
  const bool is_named = PyTuple_Check(values) && !PyTuple_CheckExact(values);
  const Object list = Object::take(is_named ? PySequence_List(values) : nullptr);
  const Object exact = Object::take(list ? PyList_AsTuple(list.get()) : Py_NewRef(values));
  const Object plain = Object::take(t_.numbers.plain(exact.get()));
  if (!plain) return nullptr;
  return t_.tracker.finish_call(t_.python.binary(op, text, plain.get() == exact.get() ? values : plain.get()));
}

PyObject* OperatorModel::unary(Operations::Unary op, PyObject* x) {
  if (op == Operations::Unary::Not) {
    const int truth = is_true(x);
    return truth < 0 ? nullptr : PyBool_FromLong(!truth);
  }
  if (!t_.tracker.operand(x) || !may_operate_on(t_, {x})) return nullptr;
  PyObject* result = t_.python.unary(op, x);
  if (!result) t_.numbers.note_failure(x);
  return t_.tracker.finish_call(result);
}

PyObject* OperatorModel::compare(int op, PyObject* a, PyObject* b) {
  if (!t_.tracker.operand(a) || !t_.tracker.operand(b)) return nullptr;
  if (is_symbolic_scalar(a) || is_symbolic_scalar(b)) {
    PyObject* result = t_.numbers.calculate(Compute::Compare + op, a, b);
    if (result != Py_NotImplemented) return result;
    Py_DECREF(result);
    if (is_scalar(a) || is_scalar(b) || is_tensor(a) || is_tensor(b))
      return t_.numbers.specialize(is_symbolic_scalar(a) ? a : b);
  }
  for (PyObject* x : {a, b}) t_.guards.add_methods(x, {kComparisons[op], kComparisons[kReflected[op]], "__eq__"});
  if (!t_.equality.guard_comparison(a, b)) return nullptr;
  Object result =
      Object::take(finish(a, b, [&](PyObject* left, PyObject* right) { return t_.python.compare(op, left, right); }));
  if (!result || !is_symbolic_bool(result.get())) return result.release();
  // The program would see that it is no bool: as an index, by its type, by identity.
  const HookOff off;
  const int truth = PyObject_IsTrue(result.get());
  return t_.tracker.finish_call(truth < 0 ? nullptr : PyBool_FromLong(truth));
}

int OperatorModel::is_same(PyObject* a, PyObject* b) {
  if (t_.ended()) return -1;
  if (a == b) return 1;
  if (is_symbolic_scalar(a) && is_symbolic_scalar(b)) return t_.numbers.specialize(a), -1;
  auto number = [](PyObject* x) { return is_symbolic(x) || PyLong_CheckExact(x); };
  if ((is_scalar(a) && is_scalar(b) && same_scalar(a, b)) ||
      (number(a) && number(b) && (is_symbolic(a) || is_symbolic(b))))
    return t_.fail(Break::IdentityOfEqualNumbers);
  const int left = t_.sources.find(t_.tensors.held_by_program(a));
  const int right = t_.sources.find(t_.tensors.held_by_program(b));
  if (left >= 0 && right >= 0 &&
      (t_.sources[left].kind != SourceKind::Constant || t_.sources[right].kind != SourceKind::Constant))
    t_.guards.add(Check::Different, left, nullptr, right);
  return 0;
}

int OperatorModel::is_true(PyObject* x) {
  if (t_.ended()) return -1;
  if (PyBool_Check(x) || is_scalar(x) || is_symbolic_scalar(x)) return PyObject_IsTrue(x);
  if (is_container(x) && !t_.containers.track_length(x)) return -1;
  PyTypeObject* type = Py_TYPE(x);
  if (is_python_class(type)) {
    t_.guards.add_methods(x, {"__bool__", "__len__"});
  } else if (!is_tensor(x) && !is_symbolic(x) && !is_known_class(type) && !PyType_Check(x)) {
    if ((type->tp_as_number && type->tp_as_number->nb_bool) ||
        (type->tp_as_mapping && type->tp_as_mapping->mp_length) ||
        (type->tp_as_sequence && type->tp_as_sequence->sq_length))
      return t_.fail(Break::TruthUnknown, type->tp_name);
  }
  if (is_tensor(x) && is_base_tensor(x)) {
    const Progress::Place at = t_.progress.place();
    const std::optional<bool> truth = at.frame ? truth_that_goes_on(code_of(at.frame), at.position) : std::nullopt;
    if (truth && !t_.may_run_operator()) return -1;
    const std::optional<bool> assumed = truth ? assume_truth(x, *truth) : false;
    if (!assumed) return t_.graph_break(trace_failure()), -1;
    if (*assumed) return *truth;
  }
  return t_.tracker.finish_status(PyObject_IsTrue(x));
}

int OperatorModel::changes(PyObject* x) {
  if (t_.ended()) return -1;
  if (t_.sources.find(x) < 0) return 0;
  if (PyIter_Check(x)) return is_c_iterator(x) ? t_.fail(Break::OuterIterator) : 0;
  return t_.containers.before_write(x, UndoLog::Writes::Append) ? 0 : -1;
}

// ---- text

PyObject* OperatorModel::format(PyObject* x, PyObject* spec) {
  const Object number = text_operand(x);
  return number ? t_.tracker.finish_call(t_.python.format(number.get(), spec)) : nullptr;
}

PyObject* OperatorModel::convert(PyObject* x, Operations::Conversion kind) {
  const Object number = text_operand(x);
  return number ? t_.tracker.finish_call(t_.python.convert(number.get(), kind)) : nullptr;
}

Object OperatorModel::text_operand(PyObject* x) {
  if (is_tensor(x)) return t_.graph_break(Break::TensorText), Object();
  return t_.tracker.operand(x) ? Object::take(t_.numbers.plain(x)) : Object();
}

PyObject* OperatorModel::join(PyObject* const* pieces, int n) {
  for (int i = 0; i < n; ++i)
    if (is_symbolic_scalar(pieces[i])) return t_.numbers.specialize(pieces[i]);
  return t_.python.join(pieces, n);
}

}  // namespace vesta::capture
