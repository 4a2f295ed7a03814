// torch.compiler.set_stance, which says at call time how much may be compiled.
#pragma once

namespace vesta::capture {

enum class Stance : unsigned char { Default, ForceEager, EagerOnMiss, FailOnMiss, EagerFirst };

// What is set now; about 10 ns. The GIL is held.
Stance stance();

}  // namespace vesta::capture
