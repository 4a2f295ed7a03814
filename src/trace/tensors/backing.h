// Memory for tensors that code fills through a pointer while it is traced: torch::tensor({1, 2, 3}) asks for an empty
// tensor and writes to it. A small CPU at::empty gets real memory, painted with a pattern; when it is read and the
// pattern is gone, the memory is a constant of the program. Reading memory that nobody wrote is undefined in eager too.
#pragma once

#include "trace/tensors/alias.h"

namespace vesta::trace {

class TracedTensorImpl;

void give_backing(TracedTensorImpl& t);
// Makes the memory the storage's contents if it was filled.
void take_backing(Recorder& r, Storage& s);
// A recorded write makes the memory stale: touching it throws from now on.
void forbid_backing(Storage& s);

}  // namespace vesta::trace
