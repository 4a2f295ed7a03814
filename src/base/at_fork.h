// Handlers of fork(), in an order in which none waits for a lock that another has taken. The child of a fork has only
// the thread that forked: it would wait forever for a lock that another thread held, and for what such a thread was
// making.
#pragma once

namespace vesta {

// From the first that `prepare` runs for to the last. Threads that hold a lock of one stage take those of later ones.
enum class ForkStage {
  Generators,  // threads in a code generator
  Compiles,    // threads that compile
  Registries,  // what compiles and calls look up
  Accounts,    // events and totals
};

// Make it in static storage at namespace scope, so that it exists when the library is loaded. A fork that has begun
// does not run handlers that a thread adds after that, and its child finds that thread's work half done.
class AtFork {
 public:
  using Handler = void (*)();
  // `prepare` runs in the forking thread before fork(), after NoFork (base/no_fork.h) has waited; then `parent` or
  // `child` runs in each process. nullptr: nothing to do.
  AtFork(ForkStage stage, Handler prepare, Handler parent, Handler child);
};

}  // namespace vesta
