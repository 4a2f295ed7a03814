// Operators that take a number beside their tensors (alpha=, value=, the scalars of torch._foreach_*), with a number
// that changes from call to call or with a tensor in its place. The trace calls the same operators with a tensor of the
// number as an operand: a graph holds tensors that change, and no other numbers.
#include "capture/python/tracer/calls/scaled_operators.h"

#include <array>
#include <string_view>

#include "capture/python/functions/plain_objects.h"
#include "capture/python/tensors/fused_step.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/symbolic_scalar.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture {
namespace {

// Where the operator takes its number: by name, or as argument `position` (-1: by name alone).
struct Form {
  std::string_view name;
  const char* keyword;
  int position;
};
constexpr Form kForms[] = {
    {"add", "alpha", -1},     {"sub", "alpha", -1},     {"subtract", "alpha", -1},
    {"addcmul", "value", -1}, {"addcdiv", "value", -1}, {"lerp", "weight", 2},
};
// The lists of tensors come first, then the number, or a list with a number for each tensor.
constexpr Form kListForms[] = {
    {"add", "alpha", 1},    {"sub", "alpha", 1},     {"mul", "scalar", 1},    {"div", "scalar", 1},
    {"pow", "exponent", 1}, {"addcmul", "value", 3}, {"addcdiv", "value", 3}, {"lerp", "weight", 2},
};
constexpr std::string_view kListPrefix = "_foreach_";
// Steps of fused optimizers.
constexpr std::string_view kSteps[] = {"_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_fused_adagrad_"};

template <size_t N>
const Form* form_of(const Form (&forms)[N], std::string_view name) {
  if (name.ends_with('_')) name.remove_suffix(1);
  const auto* it = std::ranges::find(forms, name, &Form::name);
  return it == std::end(forms) ? nullptr : it;
}

std::string_view name_of(PyObject* f) {
  if (PyCFunction_Check(f)) return reinterpret_cast<PyCFunctionObject*>(f)->m_ml->ml_name;
  if (Py_TYPE(f) == &PyMethodDescr_Type) return reinterpret_cast<PyMethodDescrObject*>(f)->d_method->ml_name;
  return {};
}

bool is_sequence(PyObject* x) { return PyList_CheckExact(x) || PyTuple_CheckExact(x); }

// A number that a graph takes as a tensor: it changes from call to call, or it is a tensor already.
bool is_number_tensor(PyObject* x) { return is_symbolic_scalar(x) || is_tensor(x); }

bool holds_number_tensor(PyObject* x) {
  if (!is_sequence(x)) return is_number_tensor(x);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x); ++i)
    if (is_number_tensor(PySequence_Fast_GET_ITEM(x, i))) return true;
  return false;
}

class Rewriter {
 public:
  Rewriter(Trace& t, const Call& c) : t_(t), c_(c) {}

  // The index of the number among the call's arguments, or -1.
  Py_ssize_t number_of(const Form& form) const {
    const Py_ssize_t first = c_.self ? 1 : 0;
    for (Py_ssize_t i = c_.n; i < c_.all(); ++i)
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c_.names, i - c_.n), form.keyword) == 0) return i;
    return form.position >= 0 && form.position - first < c_.n ? form.position - first : -1;
  }

  std::optional<PyObject*> on_tensors(const Form& form, std::string_view name) {
    const Py_ssize_t number = number_of(form);
    PyObject* const self = c_.owner();
    const Py_ssize_t operands = form.name.starts_with("addc") ? 2 : 1;
    const Py_ssize_t named = number >= c_.n ? 1 : 0;
    // The tensor, the operands and the number are all arguments.
    if (number < 0 || !self || !is_tensor(self) || !is_data(self) || !is_number_tensor(c_.args[number]) ||
        c_.named() != named || c_.rest_count() != operands + (named ? 0 : 1))
      return std::nullopt;
    if (form.name == "lerp" && is_tensor(c_.args[number]) && !is_wider_weight(c_.args[number], self))
      return std::nullopt;  // an overload has it
    PyObject* const* rest = c_.rest();
    for (Py_ssize_t i = 0; i < operands; ++i)
      if (!is_tensor(rest[i]) || !is_data(rest[i])) return std::nullopt;
    const auto factor = as_operand(c_.args[number], self, form.name == "lerp");
    if (!factor) return std::nullopt;
    if (!*factor) return nullptr;
    if (form.name == "lerp") return method(name, {self, rest[0], factor->get()});
    Object term = Object::take(method("mul", {rest[0], factor->get()}));
    if (term && form.name.starts_with("addc"))
      term = Object::take(method(form.name == "addcmul" ? "mul" : "div", {term.get(), rest[1]}));
    if (!term) return nullptr;
    const std::string in_place = name.ends_with('_') ? "_" : "";
    return method((form.name.starts_with("sub") ? "sub" : "add") + in_place, {self, term.get()});
  }

  // A step of a fused optimizer whose numbers change from call to call. PyTorch's operator takes numbers only, so the
  // trace records the step's arithmetic instead of a call, with tensors for these numbers.
  std::optional<PyObject*> as_step(std::string_view name) {
    const bool any = std::any_of(c_.args, c_.args + c_.all(), is_symbolic_scalar);
    if (!any || c_.self || c_.n < 1 || !is_sequence(c_.args[0]) || PySequence_Fast_GET_SIZE(c_.args[0]) == 0)
      return std::nullopt;
    if (is_grad_mode_on() || torch_state().transforms > 0) return std::nullopt;
    if (!t_.may_run_operator()) return nullptr;
    KeptArguments given(c_);
    for (Py_ssize_t i = 0; i < c_.all(); ++i) {
      PyObject* const x = c_.args[i];
      if (!is_symbolic_scalar(x)) {
        if (!t_.tracker.operand(x) || !given.add(t_.tensors.wrap_items(x, 2))) return nullptr;
        continue;
      }
      if (!given.add(number_of_step(x))) return nullptr;
    }
    const std::optional<bool> done = trace_fused_step(std::string(name), given.data(), c_.n, c_.names);
    if (!done) return std::nullopt;
    return *done ? Py_NewRef(Py_None) : t_.graph_break(trace_failure());
  }

  // Each tensor of the lists by itself.
  std::optional<PyObject*> on_lists(const Form& form, std::string_view name) {
    const Py_ssize_t number = number_of(form);
    if (c_.self || number < 0 || c_.n < 1 || !is_sequence(c_.args[0]) || c_.named() > 1) return std::nullopt;
    // Lists of tensors are what the operator takes anyway.
    const bool of_tensors = number < c_.n && form.position != 3 && !first_symbolic_scalar(c_.args[number]) &&
                            !(form.name == "lerp" && has_wider_weight(c_.args[number]));
    if (of_tensors || !holds_number_tensor(c_.args[number])) return std::nullopt;
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(c_.args[0]);
    for (Py_ssize_t i = 0; i < c_.all(); ++i)
      if ((i != number && !are_data(c_.args[i])) ||
          (is_sequence(c_.args[i]) && PySequence_Fast_GET_SIZE(c_.args[i]) != n))
        return t_.graph_break(Break::UnsupportedArguments, name_of_callable(c_.function));
    const bool in_place = name.ends_with('_');
    const Object results = Object::take(in_place ? nullptr : PyTuple_New(n));
    // A number by position, as addcdiv has none.
    const bool by_name = form.position == 3 || number >= c_.n;
    for (Py_ssize_t k = 0; k < n; ++k) {
      std::vector<PyObject*> args;
      for (Py_ssize_t i = 0; i < c_.all(); ++i)
        if (i != number) args.push_back(item(c_.args[i], k));
      args.push_back(item(c_.args[number], k));
      const Object names = Object::take(by_name ? Py_BuildValue("(s)", form.keyword) : nullptr);
      PyObject* x = method(name, args, names.get());
      if (!x) return nullptr;
      if (in_place)
        Py_DECREF(x);
      else
        PyTuple_SET_ITEM(results.get(), k, x);
    }
    return in_place ? Py_NewRef(Py_None) : Py_NewRef(results.get());
  }

 private:
  // Steps leave a part of their work out where a number is 0, which becomes a guard.
  Object number_of_step(PyObject* number) {
    Object zero = Object::take(PyFloat_FromDouble(0));
    const int is_zero = PyObject_RichCompareBool(number, zero.get(), Py_EQ);
    if (is_zero < 0 || t_.ended()) return {};
    return is_zero ? zero : Object::take(t_.numbers.as_tensor(number, item(c_.args[0], 0)));
  }
  static bool are_data(PyObject* x) {
    if (!is_sequence(x)) return is_data(x);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x); ++i)
      if (!is_data(PySequence_Fast_GET_ITEM(x, i))) return false;
    return true;
  }
  bool has_wider_weight(PyObject* weights) const {
    PyObject* const self = item(c_.args[0], 0);
    PyObject* const weight = item(weights, 0);
    return is_tensor(weight) && is_tensor(self) && sizes_of(weight).empty() && is_wider_weight(weight, self);
  }
  static PyObject* item(PyObject* x, Py_ssize_t k) { return is_sequence(x) ? PySequence_Fast_GET_ITEM(x, k) : x; }

  // A method of tensors, which no class of the program replaces: its operands are plain data.
  PyObject* method(std::string_view name, const std::vector<PyObject*>& args, PyObject* names = nullptr) {
    const Object base = attribute_of("torch._C", "TensorBase");
    const Object f = attribute_of(base.get(), std::string(name).c_str());
    if (!f) return nullptr;
    const auto named = names ? PyTuple_GET_SIZE(names) : 0;
    return t_.calls.call(f.get(), args.data(), static_cast<Py_ssize_t>(args.size()) - named, names);
  }

  // The number as a tensor; an empty object: the trace has ended. nullopt: eager would refuse it, or compute otherwise.
  std::optional<Object> as_operand(PyObject* number, PyObject* self, bool same_type) {
    Object x;
    if (is_symbolic_scalar(number)) {
      x = Object::take(t_.numbers.as_tensor(number, self));
    } else {
      if (requires_grad(t_.tensors.held_by_program(number)) || !sizes_of(number).empty() || !is_floating(self))
        return std::nullopt;
      x = Object::share(number);
    }
    if (!x || !same_type) return x;
    const Object type = Object::take(t_.objects.get_attr(self, "dtype"_name));
    return type ? Object::take(method("to", {x.get(), type.get()})) : Object();
  }

  // A 0-d weight of float64 for tensors of another type: eager refuses it, and torch.optim has it where eager has a
  // number.
  static bool is_wider_weight(PyObject* weight, PyObject* self) {
    const Object own = Object::take(PyObject_GetAttr(weight, "dtype"_name));
    const Object type = Object::take(PyObject_GetAttr(self, "dtype"_name));
    return own && type && own.get() != type.get();
  }

  bool is_floating(PyObject* x) {
    const Object f = Object::take(PyObject_CallMethod(x, "is_floating_point", nullptr));
    return f.get() == Py_True;
  }

  Trace& t_;
  const Call& c_;
};

}  // namespace

std::optional<PyObject*> call_with_number_tensors(Trace& t, const Callable& known, const Call& c) {
  if (known.effect != Effect::Tensors) return std::nullopt;
  const std::string_view name = name_of(c.function);
  if (name.starts_with(kListPrefix)) {
    const std::string_view own = name.substr(kListPrefix.size());
    const Form* form = form_of(kListForms, own);
    return form ? Rewriter(t, c).on_lists(*form, own) : std::nullopt;
  }
  if (std::ranges::find(kSteps, name) != std::end(kSteps)) return Rewriter(t, c).as_step(name);
  const Form* form = form_of(kForms, name);
  return form ? Rewriter(t, c).on_tensors(*form, name) : std::nullopt;
}

}  // namespace vesta::capture
