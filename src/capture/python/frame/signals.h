// Signals that wait for CPython.
#pragma once

namespace vesta::capture {

// A signal has arrived that CPython handles on the calling thread: the next evaluated code does so. Needs no GIL.
bool has_signal();

}  // namespace vesta::capture
