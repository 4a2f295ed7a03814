// Intrinsics: operations without an instruction of their own from 3.12 on. Some occur at the interactive prompt alone.
#include <map>
#include <string>

#include "capture/python/interpreter/handlers.h"
#include "capture/python/interpreter/opcodes.h"

namespace vesta::capture {
namespace {

PyObject* display(PyObject* x) {
  PyObject* hook = PySys_GetObject("displayhook");
  return hook ? PyObject_CallOneArg(hook, x) : PyErr_Format(PyExc_RuntimeError, "lost sys.displayhook");
}

Step print_expr(Evaluation& e, int) {
  Object nothing = Object::take(display(peek(e.frame, 1)));
  return done(e, 1, nothing ? 0 : -1);
}

#if PY_VERSION_HEX >= 0x030c0000

// Turns a StopIteration that would leave a generator into a RuntimeError. CPython itself runs the coroutines.
PyObject* convert_stop_iteration(PyObject* x) {
  if (!PyErr_GivenExceptionMatches(x, PyExc_StopIteration)) return Py_NewRef(x);
  PyObject* error = PyObject_CallFunction(PyExc_RuntimeError, "s", "generator raised StopIteration");
  if (error == nullptr) return nullptr;
  PyException_SetCause(error, Py_NewRef(x));
  PyException_SetContext(error, Py_NewRef(x));
  return error;
}

// A function that executes one intrinsic in CPython's evaluator (most are for type parameters). It is made from a
// function with an operator, whose instruction and cache are replaced by that of the intrinsic.
PyObject* make_intrinsic(int count, int intrinsic) {
  Object globals = Object::take(PyDict_New());
  Object like = Object::take(globals ? PyRun_String(count == 1 ? "lambda x: ~x" : "lambda x, y: x ** y", Py_eval_input,
                                                    globals.get(), globals.get())
                                     : nullptr);
  if (!like) return nullptr;
  PyObject* code = PyFunction_GET_CODE(like.get());
  Object bytes = Object::take(PyCode_GetCode(reinterpret_cast<PyCodeObject*>(code)));
  if (!bytes) return nullptr;
  constexpr int unary = opcode_of("UNARY_INVERT"), binary = opcode_of("BINARY_OP"), nop = opcode_of("NOP");
  constexpr int one = opcode_of("CALL_INTRINSIC_1"), two = opcode_of("CALL_INTRINSIC_2");
  std::string text(PyBytes_AS_STRING(bytes.get()), PyBytes_GET_SIZE(bytes.get()));
  for (size_t i = 0; i < text.size(); i += 2) {
    int opcode = static_cast<unsigned char>(text[i]);
    if (opcode != (count == 1 ? unary : binary)) continue;
    for (int cache = 1; cache <= opcode_table[opcode].caches; ++cache) text[i + 2 * cache] = static_cast<char>(nop);
    text[i] = static_cast<char>(count == 1 ? one : two);
    text[i + 1] = static_cast<char>(intrinsic);
    break;
  }
  Object replace = Object::take(PyObject_GetAttrString(code, "replace")), none = Object::take(PyTuple_New(0));
  Object changed = Object::take(PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
  Object changes = Object::take(changed ? Py_BuildValue("{sO}", "co_code", changed.get()) : nullptr);
  if (!replace || !none || !changes) return nullptr;
  Object replaced = Object::take(PyObject_Call(replace.get(), none.get(), changes.get()));
  return replaced ? PyFunction_New(replaced.get(), globals.get()) : nullptr;
}

PyObject* by_cpython(int count, int intrinsic, PyObject* const* args) {
  static std::map<std::pair<int, int>, PyObject*> functions;
  PyObject*& function = functions[{count, intrinsic}];
  if (function == nullptr) function = make_intrinsic(count, intrinsic);
  if (function == nullptr) return nullptr;
  EvalHook hook = get_eval_hook();
  set_eval_hook(nullptr);
  PyObject* x = PyObject_Vectorcall(function, args, static_cast<size_t>(count), nullptr);
  set_eval_hook(hook);
  return x;
}

enum One { Print = 1, ImportStar, StopIterationError, AsyncGenWrap, UnaryPositive, ListToTuple };
enum Two { PrepReraiseStar = 1 };

Step call_intrinsic_1(Evaluation& e, int oparg) {
  PyObject* x = peek(e.frame, 1);
  switch (oparg) {
    case Print: return replace(e, 1, display(x));
    case ImportStar: return import_all(e, x) == 0 ? replace(e, 1, Py_NewRef(Py_None)) : Step::Error;
    case StopIterationError: return replace(e, 1, convert_stop_iteration(x));
    case UnaryPositive: return replace(e, 1, e.operations.unary(Operations::Unary::Positive, x));
    case ListToTuple: return replace(e, 1, e.operations.list_to_tuple(x));
    default: return replace(e, 1, by_cpython(1, oparg, &peek(e.frame, 1)));
  }
}

Step call_intrinsic_2(Evaluation& e, int oparg) {
  if (oparg == PrepReraiseStar) return replace(e, 2, prep_reraise_star(peek(e.frame, 2), peek(e.frame, 1)));
  return replace(e, 2, by_cpython(2, oparg, &peek(e.frame, 2)));
}

#endif

constexpr Row kIntrinsicRows[] = {
    {"PRINT_EXPR", 11, 11, print_expr},
#if PY_VERSION_HEX >= 0x030c0000
    {"CALL_INTRINSIC_1", 12, 13, call_intrinsic_1},
    {"CALL_INTRINSIC_2", 12, 13, call_intrinsic_2},
#endif
};

}  // namespace

std::span<const Row> intrinsic_rows() { return kIntrinsicRows; }

}  // namespace vesta::capture
