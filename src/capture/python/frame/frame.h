// A running Python frame: the part of CPython's internals that capture depends on. The differences between minor
// versions are in cpython_3_11.h, cpython_3_12.h and cpython_3_13.h. No file of another folder includes CPython's
// internal headers.
//
// Positions count code units (2 bytes) from the start of the code; an instruction's position is that of its
// first EXTENDED_ARG prefix. The value stack is slots()[co_nlocalsplus .. co_nlocalsplus + depth).
#pragma once

#include <Python.h>

struct _PyInterpreterFrame;

namespace vesta::capture {

using Frame = _PyInterpreterFrame;
using EvalHook = PyObject* (*)(PyThreadState*, Frame*, int);

PyCodeObject* code_of(const Frame* f);  // borrowed, as all that follows
PyObject* function_of(const Frame* f);
PyObject* globals_of(const Frame* f);
PyObject* builtins_of(const Frame* f);
PyObject* locals_of(const Frame* f);  // of a class body or a module; nullptr for a function
PyObject** slots(Frame* f);           // locals, cells and free variables, then the value stack
int depth_of(const Frame* f);
void push(Frame* f, PyObject* x);  // steals; x may be nullptr
PyObject* pop(Frame* f);           // gives the reference
inline PyObject*& slot(Frame* f, int i) { return slots(f)[i]; }
PyObject*& peek(Frame* f, int n);  // n = 1: the top

// The instruction that tracebacks, f_lineno and warnings see.
void set_executing(Frame* f, int position);
int executing(const Frame* f);
// The instruction at which a frame that arrives at a hook goes on.
int next_position(const Frame* f);
// The prologue (COPY_FREE_VARS, MAKE_CELL) has not run yet.
bool is_fresh(const Frame* f);
bool is_complete(const Frame* f);   // past the prologue: tracebacks and sys._getframe show it
bool is_generator(const Frame* f);  // owned by a generator object
PyObject* generator_of(Frame* f);   // that object

// Puts the frame on top of the thread's frames; unlink takes it off. CPython's evaluator links by itself.
void link(PyThreadState* t, Frame* f);
void unlink(PyThreadState* t, Frame* f);
Frame* current_frame(PyThreadState* t);
Frame* caller_of(const Frame* f);

// Counts a frame against the recursion limit as CPython's evaluator does; false: RecursionError is set.
bool enter_recursion(PyThreadState* t);
// Finds the end of the calling thread's stack for enter_recursion(), once for each thread. It takes a millisecond in
// the main thread, whose stack glibc looks up in the memory map of the process. enter_recursion() calls it if need be.
void find_stack_limit();
void leave_recursion(PyThreadState* t);
// Handles signals, pending calls and threads that wait for the GIL, as CPython does in RESUME and backward jumps.
int handle_pending(PyThreadState* t);

// Four ways to leave a frame that is not linked. Each returns what an evaluation hook must return.
PyObject* resume(PyThreadState* t, Frame* f, int position);    // CPython goes on from here
PyObject* throw_at(PyThreadState* t, Frame* f, int position);  // the instruction raises the error that is set
PyObject* finish(PyThreadState* t, Frame* f, PyObject* value, int position);  // the function returns (steals value)
// Leaves with the error that is set and clears the frame. No handler of the frame runs.
PyObject* abandon(PyThreadState* t, Frame* f);
// The linked frame of a generator stops here, having executed a YIELD_VALUE. Returns `value`.
PyObject* suspend(PyThreadState* t, Frame* f, PyObject* value, bool delegating);

// A tracing, profiling or monitoring tool observes this code, which must then run in CPython's evaluator.
bool is_observed(PyThreadState* t, PyCodeObject* code);

// The hook of this interpreter; nullptr is CPython's own evaluator.
EvalHook get_eval_hook();
void set_eval_hook(EvalHook hook);
PyObject* evaluate_by_cpython(PyThreadState* t, Frame* f, int throwflag);

// ---- code objects
struct Handler {
  int position, depth;
  bool push_lasti;
};
bool find_handler(PyCodeObject* code, int position, Handler* out);
// The code as compiled: no specialised or instrumented instruction. Owned by a cache that lives as long as the code.
const unsigned char* pristine_code(PyCodeObject* code, int* units);
int line_of(PyCodeObject* code, int position);

}  // namespace vesta::capture
