// Objects that end later than their owner lets go of them: those that a graph which someone else captures uses, and
// those whose end calls CUDA, which is not allowed at any time and on any thread.
#pragma once

#include <memory>

namespace vesta::machine {

// Keeps the object until release_retired(). Thread-safe; calls nothing of CUDA.
void retire(std::shared_ptr<const void> object) noexcept;
// Lets go of what has been retired. The calling thread captures nothing. The end of a kernel's code may wait for the
// device.
void release_retired();

// Keeps the object as long as the graph that is being captured on the stream, and the executable graphs made of it.
// Then it is retired, on any thread.
void keep_for_graph(void* stream, std::shared_ptr<const void> object);

}  // namespace vesta::machine
