// fork() while other threads compile. The child has none of these threads: what one of them was initialising, such as a
// static object of a function, stays half initialised there, and who asks for it waits forever. So fork() waits for the
// threads that have a NoFork, and a thread that wants one waits for fork(). They must neither fork nor stay for long.
// fork() waits for a second at most, because they may need a lock that it holds already.
#pragma once

namespace vesta {

class NoFork {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;
};

}  // namespace vesta
