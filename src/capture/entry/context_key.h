// The state of PyTorch, of this thread and of the process, that decides what a program does, as one word. Reading it
// changes nothing.
#pragma once

#include <cstdint>

namespace vesta::capture {

// Autocast (enabled, dtype, per device), default dtype, deterministic algorithms, inference mode, grad mode.
uint64_t context_key();

// What is active that must see each operator: a dispatch mode, a functional transform or forward-mode differentiation.
// nullptr: nothing.
const char* foreign_mode();

}  // namespace vesta::capture
