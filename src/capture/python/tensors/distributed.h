// What the program does with torch.distributed.
#pragma once

namespace vesta::capture {

// Whether torch.distributed has a process group. Takes the GIL.
bool is_distributed();

}  // namespace vesta::capture
