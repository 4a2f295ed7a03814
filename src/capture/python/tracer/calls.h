// Calls of functions: C functions by what is known of them, Python functions through the evaluation hook.
#pragma once
#include <string_view>
#include <vector>
#include "capture/python/breaks/breaks.h"
#include "capture/python/object.h"
#include "capture/python/tracer/callables.h"
namespace vesta::capture {
class Trace;
class Calls {
 public:
  explicit Calls(Trace& trace) : t_(trace) {}
  struct CachedCall {
    Object function, arguments, keywords;
  };
  std::vector<CachedCall> cached_calls;
  bool asked_compiling() const { return asked_compiling_; }
  int changed_context() const;
  void restore_contexts();
  PyObject* call(PyObject* callable, PyObject* const* args, size_t flags, PyObject* keyword_names);
  PyObject* call_unpacked(PyObject* callable, PyObject* args, PyObject* keywords);
  PyObject* call_plainly(PyObject* callable, PyObject* const* args, Py_ssize_t n, PyObject* keyword_names);
  PyObject* call_known(const Callable& known, PyObject* callable, PyObject* const* args, Py_ssize_t n,
                       PyObject* keyword_names);
  PyObject* build_class(PyObject* build, PyObject* const* args, Py_ssize_t n, PyObject* names);
  PyObject* call_special(Special special, PyObject* callable, PyObject* self, PyObject* const* args, Py_ssize_t n,
                         PyObject* keyword_names, bool* done);
  std::string_view asking_module() const;
  bool is_compiling();
  bool is_dynamo_compiling() const;
  PyObject* call_higher_order(PyObject* const* args, Py_ssize_t n, PyObject* keyword_names);
  bool may_refer(PyObject* callable, PyObject* const* args, Py_ssize_t n);
  PyObject* call_with_numbers(PyObject* callable, PyObject* const* args, Py_ssize_t n, PyObject* keyword_names);
  PyObject* tensor_of_data(PyObject* like, PyObject* const* args, Py_ssize_t n, PyObject* keyword_names);
  PyObject* tensor_of_integers(PyObject* const* args, Py_ssize_t n, PyObject* keyword_names);
  PyObject* legacy_tensor(PyObject* like, PyObject* const* args, Py_ssize_t n);
  bool guard_cache_key(PyObject* x, bool of_library);
  PyObject* call_cached(PyObject* function, PyObject* const* args, Py_ssize_t n, PyObject* keyword_names);
  PyObject* context_value(PyObject* variable, PyObject* otherwise);
  PyObject* set_context(PyObject* method, PyObject* const* args, Py_ssize_t n, PyObject* variable, bool sets);
  bool argument(PyObject* x);
  static Break break_of(const Callable& refused) {
    return refused.special == Special::ViewRelation ? Break::ViewRelation : Break::UntraceableFunction;
  }
  Trace& t_;
  struct ContextWrite {
    Object variable, before, token;
    int count;
  };
  std::vector<ContextWrite> contexts_;
  bool asked_compiling_ = false;
};
}  // namespace vesta::capture
