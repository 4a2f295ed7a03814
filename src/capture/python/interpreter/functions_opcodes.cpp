// Instructions that make functions and return from them.
#include "capture/python/interpreter/handlers.h"

namespace vesta::capture {
namespace {

enum Part { Defaults = 1, KeywordDefaults = 2, Annotations = 4, Closure = 8 };

// Steals x.
void set_part(PyFunctionObject* function, Part part, PyObject* x) {
  PyObject** place = part == Defaults          ? &function->func_defaults
                     : part == KeywordDefaults ? &function->func_kwdefaults
                     : part == Annotations     ? &function->func_annotations
                                               : &function->func_closure;
  Py_XSETREF(*place, x);
}

Step make_function(Evaluation& e, int oparg) {
  PyObject* function = PyFunction_New(peek(e.frame, 1), globals_of(e.frame));
  if (function == nullptr) return Step::Error;
  drop(e, 1);
  for (Part part : {Closure, Annotations, KeywordDefaults, Defaults})
    if ((oparg & part) != 0) set_part(reinterpret_cast<PyFunctionObject*>(function), part, pop(e.frame));
  push(e.frame, function);
  e.operations.made(function);
  return Step::Next;
}

Step set_function_attribute(Evaluation& e, int oparg) {
  PyObject* function = pop(e.frame);
  set_part(reinterpret_cast<PyFunctionObject*>(function), static_cast<Part>(oparg), pop(e.frame));
  push(e.frame, function);
  return Step::Next;
}

Step return_value(Evaluation& e, int) {
  e.result = pop(e.frame);
  return Step::Return;
}

Step return_const(Evaluation& e, int oparg) {
  e.result = Py_NewRef(constant_at(e, oparg));
  return Step::Return;
}

constexpr Row kFunctionRows[] = {
    {"MAKE_FUNCTION", 11, 13, make_function},
    {"SET_FUNCTION_ATTRIBUTE", 13, 13, set_function_attribute},
    {"RETURN_VALUE", 11, 13, return_value},
    {"RETURN_CONST", 12, 13, return_const},
};

}  // namespace

std::span<const Row> function_rows() { return kFunctionRows; }

}  // namespace vesta::capture
