// The state of PyTorch, of this thread and of the process, that decides what a program does, as one word. Reading it
// changes nothing.
#pragma once

#include <cstdint>

namespace vesta::capture {

// Autocast (enabled, dtype, per device), default dtype, deterministic algorithms, inference mode, grad mode.
uint64_t context_key();

// A dispatch mode or a functional transform is active: each operator must go through the dispatcher.
bool foreign_mode_active();

}  // namespace vesta::capture
