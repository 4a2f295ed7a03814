// torch.compiler.set_stance, by which a program says at call time how much may be compiled. Read, never set.
#pragma once

namespace vesta::capture {

enum class Stance : unsigned char { Default, ForceEager, EagerOnMiss, FailOnMiss, EagerFirst };

// The stance now, in about 10 ns. The GIL is held.
Stance stance();

}  // namespace vesta::capture
