// Our own evaluator of bytecode on real frames: every instruction of CPython 3.11 to 3.13 that functions, generators
// and class bodies contain, by `Operations`.
#pragma once

#include "capture/python/interpreter/operations.h"

namespace vesta::capture {

enum class Step { Next, Return, Yield, Error, Stopped };

struct Evaluation {
  PyThreadState* thread;
  Frame* frame;  // linked
  Operations& operations;
  int position;                       // the next instruction
  PyObject* keyword_names = nullptr;  // from KW_NAMES (3.11, 3.12) to its CALL; borrowed from the code's constants
  PyObject* result = nullptr;         // of Return and Yield
  bool reraised = false;              // the error of the last step goes on as it was: no traceback entry for this frame
  const unsigned char* code = nullptr;  // pristine_code of the frame, read by the first step
  int units = 0;
};

// One instruction at `position`, with its prefixes; a KW_NAMES is one with the PRECALL and CALL after it (so that
// between two steps nothing is kept outside of the frame). Next and Yield: `position` is the following one, `frame`
// says what it did. Return: `position` unchanged. Error: set, `position` unchanged, no handler looked for; where an
// operation failed, its operands are still on the stack.
Step step(Evaluation& e);
// After an Error of step(): adds this frame to the traceback, enters the handler. False: there is none, the stack is
// empty.
bool enter_handler(Evaluation& e);

// Calls Operations::before and steps until the frame returns, yields, stops (Operations::before) or an error leaves it;
// handlers of the frame are entered unless operations.aborted().
Step run(Evaluation& e);

// What an evaluation hook does: the whole frame by run(), from where it stands, for functions and generators
// (coroutines and async generators go to CPython). `before` must not stop it.
PyObject* evaluate(PyThreadState* t, Frame* f, int throwflag, Operations& operations);

// "CALL"; "" if this Python has no such opcode.
const char* name_of_opcode(int opcode);
// "" if `opcode` (of the Python this was built for) has a handler or can never be met in an evaluation; else the reason
// why it is a break.
const char* why_unhandled(int opcode);
// For a check of the tables: "handled", "never: ..." (why no evaluation meets it), "break: ..." or "" (forgotten).
const char* how_handled(int opcode);

}  // namespace vesta::capture
