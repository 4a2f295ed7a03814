// Objects that outlive their owners: those that a graph of the caller's uses, and those whose destructors call CUDA,
// which is not allowed at every time and on every thread.
#pragma once

#include <memory>

namespace vesta::machine {

// Keeps the object until release_retired(). Thread-safe; calls nothing of CUDA.
void retire(std::shared_ptr<const void> object) noexcept;
bool has_retired();
// Releases what has been retired. The calling thread captures nothing. Unloading a kernel's code may wait for the
// device.
void release_retired();

// Keeps the object as long as the graph that is being captured on the stream and the executable graphs made of it
// exist. Then it is retired, on any thread.
void keep_for_graph(void* stream, std::shared_ptr<const void> object);

}  // namespace vesta::machine
