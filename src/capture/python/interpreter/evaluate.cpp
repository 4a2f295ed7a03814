#include "capture/python/interpreter/evaluate.h"

#include <array>
#include <string_view>

#include "capture/python/interpreter/handlers.h"
#include "capture/python/interpreter/opcodes.h"

namespace vesta::capture {
namespace {

constexpr int extended_arg = opcode_of("EXTENDED_ARG");
constexpr int kw_names_opcode = opcode_of("KW_NAMES");

struct Absent {
  const char* name;
  const char* how;
};

constexpr Absent absent_rows[] = {
    {"CACHE", "never: data of the instruction before it"},
    {"EXTENDED_ARG", "handled"},
    {"RETURN_GENERATOR", "never: CPython makes the generator"},
    {"ASYNC_GEN_WRAP", "never: async generators go to CPython"},
    {"BEFORE_ASYNC_WITH", "never: coroutines go to CPython"},
    {"END_ASYNC_FOR", "never: coroutines go to CPython"},
    {"GET_ANEXT", "never: coroutines go to CPython"},
    {"GET_AWAITABLE", "never: coroutines go to CPython"},
    {"INTERPRETER_EXIT", "never: of the evaluator's own entry frame"},
    {"EXIT_INIT_CHECK", "never: of frames that specialised calls make"},
    {"ENTER_EXECUTOR", "never: of specialised code"},
    {"RESERVED", "never: not compiled"},
};

using Table = std::array<Execute, 256>;

const Table& table() {
  static const Table made = [] {
    Table t{};
    for (std::span<const Row> rows : {stack_rows(), name_rows(), cell_rows(), attribute_rows(), operator_rows(),
                                      container_rows(), jump_rows(), call_rows(), function_rows(), intrinsic_rows(),
                                      exception_rows(), generator_rows(), match_rows(), import_rows()})
      for (const Row& row : rows)
        if (row.first <= python_minor && python_minor <= row.last) {
          int opcode = opcode_of(row.name);
          if (opcode < 0) Py_FatalError("an instruction's versions are declared wrongly");
          t[opcode] = row.handler;
        }
    return t;
  }();
  return made;
}

void clear_stack(Evaluation& e) { drop(e, depth_of(e.frame)); }

bool read_code(Evaluation& e) {
  if (e.code == nullptr) e.code = pristine_code(code_of(e.frame), &e.units);
  return e.code != nullptr;
}

// The error that is set, as an instance. New reference.
PyObject* take_error() {
#if PY_VERSION_HEX >= 0x030c0000
  return PyErr_GetRaisedException();
#else
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyException_SetTraceback(value, traceback != nullptr ? traceback : Py_None);
  Py_XDECREF(traceback);
  Py_XDECREF(type);
  return value;
#endif
}

}  // namespace

Step step(Evaluation& e) {
  if (!read_code(e)) return Step::Error;
  const Table& handlers = table();
  const int start = e.position;
  int at = start;
  int oparg = 0;
  for (;;) {
    int opcode = e.code[2 * at];
    oparg = oparg << 8 | e.code[2 * at + 1];
    if (opcode == extended_arg) {
      ++at;
      continue;
    }
    set_executing(e.frame, opcode == kw_names_opcode || e.keyword_names != nullptr ? at : start);
    Execute handler = handlers[opcode];
    if (handler == nullptr) {
      const char* name = opcode_table[opcode].name;
      return fail(PyExc_SystemError, "instruction %s cannot be interpreted", name != nullptr ? name : "?");
    }
    e.position = at + 1 + opcode_table[opcode].caches;
    Step result = handler(e, oparg);
    if (result == Step::Next) {
      if (e.keyword_names == nullptr) return result;
      at = e.position;  // go on to the CALL that these belong to
      oparg = 0;
      continue;
    }
    if (result != Step::Yield) e.position = start;
    if (result == Step::Error) e.keyword_names = nullptr;
    return result;
  }
}

bool enter_handler(Evaluation& e) {
  bool as_it_was = e.reraised;
  e.reraised = false;
  if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_SystemError, "error return without exception set");
  if (!as_it_was && is_complete(e.frame)) {
    if (PyFrameObject* object = PyEval_GetFrame()) PyTraceBack_Here(object);
  }
  Handler handler;
  if (!find_handler(code_of(e.frame), e.position, &handler)) {
    clear_stack(e);
    return false;
  }
  while (depth_of(e.frame) > handler.depth) drop(e, 1);
  if (handler.push_lasti) {
    PyObject* where = PyLong_FromLong(executing(e.frame));
    if (where == nullptr) {
      clear_stack(e);
      return false;
    }
    push(e.frame, where);
  }
  push(e.frame, take_error());
  e.position = handler.position;
  return true;
}

namespace {

Step run_frame(Evaluation& e, bool step_aside) {
  for (;;) {
    set_executing(e.frame, e.position);
    if (step_aside && is_observed(e.thread, code_of(e.frame))) return Step::Stopped;
    if (!e.operations.before(e.frame, e.position)) return Step::Stopped;
    Step result = e.operations.aborted() ? Step::Error : step(e);
    if (result == Step::Next) continue;
    if (result != Step::Error) return result;
    if (e.operations.aborted()) {
      e.reraised = false;
      clear_stack(e);
      return result;
    }
    if (!enter_handler(e)) return result;
  }
}

}  // namespace

Step run(Evaluation& e) { return run_frame(e, false); }

PyObject* evaluate(PyThreadState* t, Frame* f, int throwflag, Operations& operations) {
  PyCodeObject* code = code_of(f);
  bool generator = is_generator(f);
  bool makes_generator = !generator && (code->co_flags & CO_GENERATOR) != 0;
  if (makes_generator || (code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0 || is_observed(t, code))
    return evaluate_by_cpython(t, f, throwflag);
  if (!enter_recursion(t)) return abandon(t, f);
  link(t, f);
  Evaluation e{t, f, operations, next_position(f)};
  Step result = Step::Error;
  if (throwflag == 0) {
    result = run_frame(e, true);
  } else if (!operations.aborted()) {  // the error is raised by the yield at which the generator stopped
    e.position -= 1;
    if (enter_handler(e)) result = run_frame(e, true);
  }
  if (result == Step::Yield) {
    leave_recursion(t);
    bool delegating = e.code[2 * e.position - 1] == 1;
    return suspend(t, f, e.result, delegating);
  }
  unlink(t, f);
  leave_recursion(t);
  if (result == Step::Return) return finish(t, f, e.result, e.position);
  // Stopped: a tool has begun to observe the code.
  return result == Step::Stopped ? resume(t, f, e.position) : abandon(t, f);
}

const char* how_handled(int opcode) {
  if (opcode < 0 || opcode > 255) return "";
  if (table()[opcode] != nullptr) return "handled";
  const char* name = opcode_table[opcode].name;
  for (const Absent& row : absent_rows)
    if (name != nullptr && std::string_view(name) == row.name) return row.how;
  return "";
}

const char* name_of_opcode(int opcode) {
  const char* name = opcode_table[opcode].name;
  return name ? name : "";
}

}  // namespace vesta::capture
