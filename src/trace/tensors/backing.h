// Memory for tensors that code fills through a pointer while it is traced: torch::tensor({1, 2, 3}) makes an empty
// tensor and writes to it. A small CPU at::empty gets real memory filled with a pattern. If the tensor is read and the
// pattern is gone, the memory is a constant of the program. Reading memory that was never written is undefined in
// eager, too.
#pragma once

#include "trace/tensors/alias.h"

namespace vesta::trace {

class TracedTensorImpl;

void give_backing(TracedTensorImpl& t);
// If the memory was filled, it becomes the storage's contents.
void take_backing(Recorder& r, Storage& s);
// After a recorded write the memory is out of date: an access to it throws from now on.
void forbid_backing(Storage& s);

}  // namespace vesta::trace
