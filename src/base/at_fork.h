// Handlers of fork(), in an order in which none waits for a lock that another has taken. The child of a fork has only
// the thread that forked: it would wait forever for a lock that another thread held, and for what such a thread was
// making.
#pragma once

namespace vesta {

// The order in which `prepare` takes locks. A thread that holds a lock of one stage may wait for a lock of a later
// stage.
enum class ForkStage {
  Generators,  // threads in a code generator
  Compiles,    // threads that compile
  Registries,  // tables that compiles and calls read: loaded code, packed weights, stores
  Accounts,    // events and totals
};

// Define objects of this class at namespace scope or as static members: they register their handlers when the library
// is loaded. If a thread registered handlers during a fork, that fork would not run them.
class AtFork {
 public:
  using Handler = void (*)();
  // `prepare` runs in the thread that forks, before fork() and after NoFork (base/no_fork.h) has waited for other
  // threads. Afterwards `parent` runs in the parent, and `child` in the child. Each may be nullptr.
  AtFork(ForkStage stage, Handler prepare, Handler parent, Handler child);
};

}  // namespace vesta
