// Our own evaluator of bytecode on real frames. It executes every instruction of CPython 3.11 to 3.13 that functions,
// generators and class bodies contain. All work on objects is done by an `Operations`; the evaluator itself only moves
// operands, jumps and handles exceptions.
#pragma once

#include "capture/python/interpreter/operations.h"

namespace vesta::capture {

enum class Step { Next, Return, Yield, Error, Stopped };

struct Evaluation {
  PyThreadState* thread;
  Frame* frame;  // linked
  Operations& operations;
  int position;                         // the next instruction
  PyObject* keyword_names = nullptr;    // from KW_NAMES (3.11, 3.12) to its CALL; borrowed from the code's constants
  PyObject* result = nullptr;           // of Return and Yield
  bool reraised = false;                // the last step raised its error again: no new traceback entry for this frame
  const unsigned char* code = nullptr;  // pristine_code of the frame, read by the first step
  int units = 0;
};

// Executes one instruction at `position`, with its prefixes. KW_NAMES is one instruction with the PRECALL and CALL
// after it, so that the frame alone holds the state between two steps. Next and Yield: `position` is the following
// instruction. Return: `position` is unchanged. Error: an error is set, `position` is unchanged, no handler has been
// looked for, and the operands of a failed operation are still on the stack.
Step step(Evaluation& e);
// After an Error of step(): adds this frame to the traceback and enters the handler. False: there is no handler, and
// the stack is empty.
bool enter_handler(Evaluation& e);

// Calls Operations::before and steps until the frame returns, yields, stops (Operations::before) or an error leaves it;
// handlers of the frame are entered unless operations.aborted().
Step run(Evaluation& e);

// What an evaluation hook does: runs the whole frame from its next instruction, if it is a function's or a generator's
// (CPython runs coroutines and async generators). `before` must not stop it.
PyObject* evaluate(PyThreadState* t, Frame* f, int throwflag, Operations& operations);

// "CALL"; "" if this Python has no such opcode.
const char* name_of_opcode(int opcode);
// For a test of the tables: "handled", "never: ..." (why it does not occur), "break: ...", or "" for a forgotten one.
const char* how_handled(int opcode);

}  // namespace vesta::capture
