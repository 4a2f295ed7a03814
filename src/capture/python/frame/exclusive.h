// A trace works on the program's own objects and takes back what it wrote: no other thread may look meanwhile.
#pragma once

namespace vesta::capture {

// While one lives, its thread keeps the GIL. The tracer asks no other thread to go on; torch's operators, which would
// release the GIL for their work, do not: a traced operator has none.
class Exclusive {
 public:
  Exclusive();
  ~Exclusive();
  Exclusive(const Exclusive&) = delete;
  Exclusive& operator=(const Exclusive&) = delete;
};

// Lets torch's library ask us when it is to release the GIL. Without it (a library that is linked in another way than
// dynamically) operators release it in traces, too. Once, before the first trace.
void install_exclusive();

}  // namespace vesta::capture
