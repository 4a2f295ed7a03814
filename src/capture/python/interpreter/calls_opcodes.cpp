#include "capture/python/interpreter/handlers.h"

namespace vesta::capture {
namespace {

// Operands: the callable, a slot for `self` (before 3.13 in the other order), `count` arguments, `extra` operands.
// Calls the callable and replaces all operands by the result.
Step call_with(Evaluation& e, int count, PyObject* keyword_names, int extra) {
  int base = count + 2 + extra;
  PyObject* callable = peek(e.frame, base);
  PyObject* self = peek(e.frame, base - 1);
  if (python_minor < 13 && callable == nullptr) std::swap(callable, self);
  PyObject** args = &peek(e.frame, base - 1) + 1;
  Py_ssize_t positional = count;
  if (self != nullptr) {
    --args;
    ++positional;
  }
  if (keyword_names != nullptr) positional -= PyTuple_GET_SIZE(keyword_names);
  PyObject* result = e.operations.call(callable, args, static_cast<size_t>(positional) | offset_flag(e), keyword_names);
  if (replace(e, base, result) == Step::Error) return Step::Error;
  return e.operations.pending(e.thread) < 0 ? Step::Error : Step::Next;
}

Step kw_names(Evaluation& e, int oparg) {
  e.keyword_names = constant_at(e, oparg);
  return Step::Next;
}

Step precall(Evaluation&, int) { return Step::Next; }

Step call(Evaluation& e, int oparg) {
  PyObject* keyword_names = e.keyword_names;
  e.keyword_names = nullptr;
  return call_with(e, oparg, keyword_names, 0);
}

Step call_kw(Evaluation& e, int oparg) { return call_with(e, oparg, peek(e.frame, 1), 1); }

Step call_function_ex(Evaluation& e, int oparg) {
  bool with_keywords = (oparg & 1) != 0;
  PyObject* keywords = with_keywords ? peek(e.frame, 1) : nullptr;
  PyObject* callargs = peek(e.frame, with_keywords ? 2 : 1);
  PyObject* callable = peek(e.frame, (with_keywords ? 3 : 2) + (python_minor >= 13 ? 1 : 0));
  Object dict, tuple;
  if (keywords != nullptr && !PyDict_CheckExact(keywords)) {
    dict = Object::take(PyDict_New());
    if (!dict || e.operations.merge_keywords(callable, dict.get(), keywords) < 0) return Step::Error;
    keywords = dict.get();
  }
  if (!PyTuple_CheckExact(callargs)) {
    if (Py_TYPE(callargs)->tp_iter == nullptr && !PySequence_Check(callargs)) {
      Object what = Object::take(describe_callable(callable));
      if (!what) return Step::Error;
      return fail(PyExc_TypeError, "%U argument after * must be an iterable, not %.200s", what.get(),
                  Py_TYPE(callargs)->tp_name);
    }
    Object list = Object::take(PyList_New(0));
    if (!list || e.operations.extend_list(list.get(), callargs) < 0) return Step::Error;
    tuple = Object::take(e.operations.list_to_tuple(list.get()));
    if (!tuple) return Step::Error;
    callargs = tuple.get();
  }
  PyObject* result = e.operations.call_unpacked(callable, callargs, keywords);
  if (replace(e, with_keywords ? 4 : 3, result) == Step::Error) return Step::Error;
  return e.operations.pending(e.thread) < 0 ? Step::Error : Step::Next;
}

constexpr Row kCallRows[] = {
    {"KW_NAMES", 11, 12, kw_names},
    {"PRECALL", 11, 11, precall},
    {"CALL", 11, 13, call},
    {"CALL_KW", 13, 13, call_kw},
    {"CALL_FUNCTION_EX", 11, 13, call_function_ex},
};

}  // namespace

std::span<const Row> call_rows() { return kCallRows; }

}  // namespace vesta::capture
