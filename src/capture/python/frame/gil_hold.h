// A trace writes to the program's own objects and undoes the writes at its end. No other thread may see them meanwhile,
// so the tracing thread holds the GIL for the whole trace.
#pragma once

namespace vesta::capture {

// While one lives, its thread keeps the GIL. The tracer asks no other thread to go on; torch's operators, which would
// release the GIL for their work, do not: a traced operator has none.
class GilHold {
 public:
  GilHold();
  ~GilHold();
  GilHold(const GilHold&) = delete;
  GilHold& operator=(const GilHold&) = delete;
};

// Lets torch's library ask us when it is to release the GIL. Without it (a library that is linked in another way than
// dynamically) operators release it in traces, too. Once, before the first trace.
void install_gil_hold();

}  // namespace vesta::capture
