// References that an instruction drops. A trace keeps each object that it met until it ends; eager would let it go now.
#pragma once

#include "capture/python/frame/frame.h"

namespace vesta::capture {

class Trace;

// Before the instruction of a frame. Ends the trace where the instruction drops a reference to an object of the program
// whose death something observes: a finalizer, a weak reference, a generator's `finally`. Also where it raises an
// exception that existed before, which would write to its traceback.
void check_dropped_references(Trace& trace, Frame* f, int position);

}  // namespace vesta::capture
