// torch.utils.checkpoint.checkpoint. The function runs as a part of the program, and the graph knows which values it
// computed (trace/checkpoint.h): the backward pass computes them again, where eager runs the function again. What the
// second run would do besides is a graph break.
#include "trace/checkpoint.h"

#include <algorithm>
#include <string_view>

#include "capture/python/frame/warnings.h"
#include "capture/python/functions/call_handlers.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture::handlers {
namespace {

// The arguments of checkpoint itself, and those of the function that it calls.
class Arguments {
 public:
  explicit Arguments(const Call& c) : given_(c.args + 1, c.args + c.n), positional_(c.n - 1) {
    auto* const code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(c.function));
    const Object variables = Object::take(PyCode_GetVarnames(code));
    const auto all = span_of(variables.get());
    const auto own = all.subspan(static_cast<size_t>(code->co_argcount), static_cast<size_t>(code->co_kwonlyargcount));
    names_ = Object::take(PyList_New(0));
    for (Py_ssize_t i = 0; i < c.named() && names_; ++i) {
      PyObject* const name = PyTuple_GET_ITEM(c.names, i);
      const auto is_same = [&](PyObject* x) { return PyUnicode_Compare(x, name) == 0; };
      if (std::ranges::any_of(own, is_same) || is_same("preserve_rng_state"_name)) {
        options_.emplace_back(utf8_of(name), c.args[c.n + i]);
      } else if (PyList_Append(names_.get(), name) < 0) {
        names_ = {};
      } else {
        given_.push_back(c.args[c.n + i]);
      }
    }
    if (names_) names_ = Object::take(PyList_AsTuple(names_.get()));
    given_.push_back(nullptr);
  }

  bool is_valid() const { return static_cast<bool>(names_); }  // memory was not short
  bool has_keywords() const { return PyTuple_GET_SIZE(names_.get()) > 0; }
  PyObject* option(std::string_view name, PyObject* otherwise) const {
    for (const auto& [given, value] : options_)
      if (given == name) return value;
    return otherwise;
  }
  const std::vector<std::pair<std::string_view, PyObject*>>& options() const { return options_; }
  std::span<PyObject* const> positional() const { return {given_.data(), static_cast<size_t>(positional_)}; }
  PyObject* call(Trace& t, PyObject* function) const {
    return t.calls.call(function, given_.data(), positional_, has_keywords() ? names_.get() : nullptr);
  }

 private:
  std::vector<PyObject*> given_;
  Py_ssize_t positional_;
  Object names_;
  std::vector<std::pair<std::string_view, PyObject*>> options_;
};

// The context_fn that sets no contexts.
bool sets_none(PyObject* context_fn) {
  return context_fn == attribute_of("torch.utils.checkpoint", "noop_context_fn").get();
}

bool is_bool(PyObject* x) { return x == Py_True || x == Py_False; }

// Eager's warning for a call without use_reentrant. False: the code of this version has none.
bool warn_without_use_reentrant(const Call& c) {
  auto* const code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(c.function));
  for (PyObject* x : span_of(code->co_consts)) {
    if (!utf8_of(x).starts_with("torch.utils.checkpoint: the use_reentrant parameter")) continue;
    return warn(PyExc_UserWarning, PyUnicode_AsUTF8(x), 2) == 0;
  }
  return false;
}

// 1: one of them requires a gradient; -1: the trace has ended.
int any_requires_grad(Trace& t, std::span<PyObject* const> list) {
  for (PyObject* x : list) {
    if (!is_tensor(x)) continue;
    const Object required = Object::take(t.objects.get_attr(x, "requires_grad"_name));
    if (!required) return -1;
    if (required.get() != Py_False) return 1;
  }
  return 0;
}

// Whether the variant with a backward pass of its own returns what the function returned: a tensor or a tuple, each
// tensor with a gradient and none of them an argument.
bool is_returned_by_reentrant(PyObject* result, std::span<PyObject* const> arguments) {
  if (PyTuple_CheckExact(result))
    return std::ranges::all_of(span_of(result), [&](PyObject* x) {
      return !PyTuple_Check(x) && (x == Py_None || (is_tensor(x) && is_returned_by_reentrant(x, arguments)));
    });
  if (!is_tensor(result) || std::ranges::find(arguments, result) != arguments.end()) return false;
  return requires_grad(result) || !may_require_grad(result);
}

// The function wrote to an object that was there before the trace.
bool wrote_objects(const Trace& t, size_t writes_before) {
  const auto& entries = t.log.entries();
  return std::any_of(entries.begin() + static_cast<ptrdiff_t>(writes_before), entries.end(),
                     [&](const UndoLog::Entry& e) { return t.sources.find(e.target.get()) >= 0; });
}

}  // namespace

Result checkpoint(Trace& t, const Call& c) {
  if (c.n == 0 || !torch_state().saved_tensor_hooks) return std::nullopt;
  const Arguments arguments(c);
  if (!arguments.is_valid()) return nullptr;
  for (const auto& [name, value] : arguments.options())
    if (!t.tracker.operand(value)) return nullptr;
  PyObject* const contexts = arguments.option("context_fn", nullptr);
  if (contexts && !sets_none(contexts)) return t.graph_break(Break::Checkpoint, "with a context_fn");
  PyObject* const reentrant = arguments.option("use_reentrant", Py_None);
  PyObject* const preserves = arguments.option("preserve_rng_state", Py_True);
  PyObject* const check = arguments.option("determinism_check", nullptr);
  const bool is_known_check = !check || utf8_of(check) == "default" || utf8_of(check) == "none";
  // What eager refuses, and what only its own code does.
  if ((reentrant != Py_None && !is_bool(reentrant)) || !is_bool(preserves) || !is_known_check) return std::nullopt;
  if (arguments.option("debug", Py_False) != Py_False) return std::nullopt;
  const bool is_reentrant = reentrant != Py_False;
  if (is_reentrant) {
    if (arguments.has_keywords()) return std::nullopt;
    const int any = any_requires_grad(t, arguments.positional());
    if (any < 0) return nullptr;
    if (any == 0) return std::nullopt;  // eager warns, and its results require no gradient
    if (reentrant == Py_None && !warn_without_use_reentrant(c)) return PyErr_Clear(), std::nullopt;
  }
  PyObject* const function = c.args[0];
  if (!is_grad_mode_on()) return arguments.call(t, function);

  const size_t writes_before = t.log.entries().size();
  trace::CheckpointScope region;
  Object result = Object::take(arguments.call(t, function));
  if (!result) return nullptr;
  const bool draws = region.draws();
  if (region.end()) return t.graph_break(Break::Checkpoint, "on a function that writes to tensors");
  if (wrote_objects(t, writes_before)) return t.graph_break(Break::Checkpoint, "on a function that writes to objects");
  if (draws && preserves == Py_False)
    return t.graph_break(Break::Checkpoint, "with preserve_rng_state=False on a function that draws random numbers");
  if (is_reentrant && !is_returned_by_reentrant(result.get(), arguments.positional()))
    return t.graph_break(Break::Checkpoint, "with use_reentrant=True on a function that returns more than new tensors");
  return result.release();
}

}  // namespace vesta::capture::handlers
