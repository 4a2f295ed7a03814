// Tells whether a signal has arrived that CPython has not handled yet.
#pragma once

namespace vesta::capture {

// Whether a signal has arrived, and the calling thread is the one that handles signals. CPython handles it before it
// evaluates more code on this thread. Needs no GIL.
bool has_signal();

}  // namespace vesta::capture
