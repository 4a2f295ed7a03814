// The state of PyTorch that decides what a program does in this thread, as one word. Read, never changed.
#pragma once

#include <cstdint>

namespace vesta::capture {

// Autocast (enabled, dtype, per device), default dtype, deterministic algorithms, inference mode, grad mode.
uint64_t context_key();

// A dispatch mode or a functional transform is active: calls must go through the dispatcher op by op.
bool foreign_mode_active();

}  // namespace vesta::capture
