#define Py_BUILD_CORE 1
#include "capture/python/frame/frame.h"

#if PY_VERSION_HEX >= 0x030e0000
#error "capture of Python frames knows CPython 3.11, 3.12 and 3.13"
#elif PY_VERSION_HEX >= 0x030d0000
#include "capture/python/frame/cpython_3_13.h"
#elif PY_VERSION_HEX >= 0x030c0000
#include "capture/python/frame/cpython_3_12.h"
#else
#include "capture/python/frame/cpython_3_11.h"
#endif

#include <pthread.h>

#include <algorithm>
#include <string_view>

#include "capture/python/frame/signals.h"
#include "vesta_opcodes.h"

namespace vesta::capture {

PyCodeObject* code_of(const Frame* f) { return layout::code(f); }
PyObject* function_of(const Frame* f) { return layout::function(f); }
PyObject* globals_of(const Frame* f) { return f->f_globals; }
PyObject* builtins_of(const Frame* f) { return f->f_builtins; }
PyObject* locals_of(const Frame* f) { return f->f_locals; }
PyObject** slots(Frame* f) { return f->localsplus; }
int depth_of(const Frame* f) { return f->stacktop - layout::code(f)->co_nlocalsplus; }
void push(Frame* f, PyObject* x) { f->localsplus[f->stacktop++] = x; }
PyObject* pop(Frame* f) { return f->localsplus[--f->stacktop]; }
PyObject*& peek(Frame* f, int n) { return f->localsplus[f->stacktop - n]; }

void set_executing(Frame* f, int position) { layout::set_executing(f, position); }
int executing(const Frame* f) { return layout::executing(f); }
int next_position(const Frame* f) { return layout::next(f); }
bool is_fresh(const Frame* f) { return !is_generator(f) && layout::next(f) <= 0; }
bool is_complete(const Frame* f) { return !_PyFrame_IsIncomplete(const_cast<Frame*>(f)); }
bool is_generator(const Frame* f) { return f->owner == FRAME_OWNED_BY_GENERATOR; }
PyObject* generator_of(Frame* f) { return reinterpret_cast<PyObject*>(_PyFrame_GetGenerator(f)); }

void link(PyThreadState* t, Frame* f) {
  f->previous = layout::current(t);
  layout::current(t) = f;
}
void unlink(PyThreadState* t, Frame* f) { layout::current(t) = f->previous; }
Frame* current_frame(PyThreadState* t) { return layout::current(t); }
Frame* caller_of(const Frame* f) {
  do f = f->previous;
  while (f && layout::is_entry(f));
  return const_cast<Frame*>(f);
}

namespace {

// Where this thread's stack ends for us. CPython's evaluator needs no C stack for a Python call; ours does.
const char* stack_limit() {
  constexpr size_t reserve = 512 * 1024;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return nullptr;
  void* lowest = nullptr;
  size_t size = 0;
  pthread_attr_getstack(&attributes, &lowest, &size);
  pthread_attr_destroy(&attributes);
  return static_cast<const char*>(lowest) + std::min(reserve, size / 2);
}

const char* limit_of_thread() {
  static thread_local const char* const limit = stack_limit();
  return limit;
}

}  // namespace

void find_stack_limit() { limit_of_thread(); }

bool enter_recursion(PyThreadState* t) {
  if (static_cast<const char*>(__builtin_frame_address(0)) < limit_of_thread()) {
    PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded");
    return false;
  }
  return layout::enter_recursion(t);
}
void leave_recursion(PyThreadState* t) { layout::leave_recursion(t); }
bool has_signal() { return layout::has_signal(); }
int handle_pending(PyThreadState* t) { return layout::handle_pending(t); }

PyObject* resume(PyThreadState* t, Frame* f, int position) {
  layout::set_next(f, position);
  return _PyEval_EvalFrameDefault(t, f, 0);
}

namespace {

void drop_stack(Frame* f, int depth = 0) {
  int top = layout::code(f)->co_nlocalsplus + depth;
  while (f->stacktop > top) {
    PyObject* x = f->localsplus[--f->stacktop];
    Py_XDECREF(x);
  }
}

const OpcodeRow& instruction_at(PyCodeObject* code, int position) {
  int units = 0;
  const unsigned char* bytes = pristine_code(code, &units);
  static constexpr OpcodeRow none = {nullptr, 0};
  return bytes != nullptr && position < units ? opcode_table[bytes[2 * position]] : none;
}

bool is(const OpcodeRow& row, const char* name) { return row.name != nullptr && std::string_view(row.name) == name; }

}  // namespace

#if PY_VERSION_HEX >= 0x030d0000

// The evaluator looks for the handler of the unit before instr_ptr, and for the line of instr_ptr itself. If one
// instr_ptr is right for both, the evaluator gets it; else the handler is entered here.
PyObject* throw_at(PyThreadState* t, Frame* f, int position) {
  PyCodeObject* code = layout::code(f);
  Handler here, before;
  bool handled = find_handler(code, position, &here);
  bool handled_before = position > 0 && find_handler(code, position - 1, &before);
  bool same =
      handled == handled_before && (!handled || (here.position == before.position && here.depth == before.depth &&
                                                 here.push_lasti == before.push_lasti));
  if (!same && is(instruction_at(code, position + 1), "CACHE")) {
    position++;
    same = true;
  }
  layout::set_executing(f, position);
  if (same) return _PyEval_EvalFrameDefault(t, f, 1);
  link(t, f);
  if (is_complete(f)) {
    if (PyFrameObject* object = PyEval_GetFrame()) PyTraceBack_Here(object);
  }
  unlink(t, f);
  if (!handled) return abandon(t, f);
  PyObject* error = PyErr_GetRaisedException();
  drop_stack(f, here.depth);
  if (here.push_lasti) push(f, PyLong_FromLong(position));
  push(f, error);
  return resume(t, f, here.position);
}

#else

// In tracebacks, the position of a call with keywords is that of its CALL.
PyObject* throw_at(PyThreadState* t, Frame* f, int position) {
  PyCodeObject* code = layout::code(f);
  int call = position;
  while (is(instruction_at(code, call), "EXTENDED_ARG")) ++call;
  if (is(instruction_at(code, call), "KW_NAMES")) {
    for (++call; !is(instruction_at(code, call), "CALL");) call += 1 + instruction_at(code, call).caches;
    position = call;
  }
  return layout::throw_at(t, f, position);
}

#endif

PyObject* finish(PyThreadState* t, Frame* f, PyObject* value, int position) {
  drop_stack(f);
#if PY_VERSION_HEX >= 0x030c0000 && PY_VERSION_HEX < 0x030d0000
  PyCodeObject* code = layout::code(f);
  if (is(instruction_at(code, position), "RETURN_CONST")) {
    Py_DECREF(value);
    return layout::finish(t, f, nullptr, position);
  }
  if (!is(instruction_at(code, position), "RETURN_VALUE")) {
    position = -1;
    int units = 0;
    const unsigned char* bytes = pristine_code(code, &units);
    for (int i = 0; i < units && position < 0; i += 1 + opcode_table[bytes[2 * i]].caches)
      if (is(opcode_table[bytes[2 * i]], "RETURN_VALUE")) position = i;
  }
#else
  layout::set_executing(f, position);
  f->previous = layout::current(t);  // a frame object that outlives the frame takes its caller from here
#endif
  return layout::finish(t, f, value, position);
}

PyObject* abandon(PyThreadState* t, Frame* f) {
  if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_SystemError, "a frame was left with no error set");
  drop_stack(f);
#if PY_VERSION_HEX >= 0x030c0000 && PY_VERSION_HEX < 0x030d0000
  Handler handler;
  return layout::abandon(t, f, find_handler(layout::code(f), layout::executing(f), &handler));
#else
  f->previous = layout::current(t);
  return layout::abandon(t, f);
#endif
}

PyObject* suspend(PyThreadState* t, Frame* f, PyObject* value, bool delegating) {
  unlink(t, f);
  layout::suspend(t, f, delegating);
  return value;
}

bool is_observed(PyThreadState* t, PyCodeObject* code) { return layout::observed(t, code); }

EvalHook get_eval_hook() { return PyInterpreterState_Get()->eval_frame; }
void set_eval_hook(EvalHook hook) { PyInterpreterState_Get()->eval_frame = hook; }
PyObject* evaluate_by_cpython(PyThreadState* t, Frame* f, int throwflag) {
  return _PyEval_EvalFrameDefault(t, f, throwflag);
}

namespace {

const unsigned char* read_number(const unsigned char* p, int* out) {
  int value = *p & 63;
  while (*p & 64) value = value << 6 | (*++p & 63);
  *out = value;
  return p + 1;
}

}  // namespace

bool find_handler(PyCodeObject* code, int position, Handler* out) {
  const unsigned char* p = reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(code->co_exceptiontable));
  const unsigned char* end = p + PyBytes_GET_SIZE(code->co_exceptiontable);
  while (p < end) {
    int start, length, target, depth;
    p = read_number(read_number(read_number(read_number(p, &start), &length), &target), &depth);
    if (start > position) return false;
    if (position < start + length) {
      *out = {target, depth >> 1, (depth & 1) != 0};
      return true;
    }
  }
  return false;
}

const unsigned char* pristine_code(PyCodeObject* code, int* units) {
  static Py_ssize_t index = -1;
  PyObject* owner = reinterpret_cast<PyObject*>(code);
  if (index < 0) index = layout::request_extra([](void* bytes) { Py_XDECREF(static_cast<PyObject*>(bytes)); });
  void* extra = nullptr;
  if (index < 0 || layout::get_extra(owner, index, &extra) < 0) return nullptr;
  if (extra == nullptr) {
    extra = PyCode_GetCode(code);
    if (extra == nullptr || layout::set_extra(owner, index, extra) < 0) return nullptr;
  }
  PyObject* bytes = static_cast<PyObject*>(extra);
  *units = static_cast<int>(PyBytes_GET_SIZE(bytes) / 2);
  return reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(bytes));
}

int line_of(PyCodeObject* code, int position) {
  return PyCode_Addr2Line(code, position * static_cast<int>(sizeof(_Py_CODEUNIT)));
}

}  // namespace vesta::capture
