// Keeps fork() away from code that must not be interrupted by it. The child of a fork has none of the threads that
// compile. If one of them was initialising a static object of a function, the object stays half initialised in the
// child, and a thread that uses it there waits forever. So fork() waits until no thread holds a NoFork, and the
// constructor waits for fork(). A thread that holds one must not fork, and should hold it for a short time: fork()
// waits for a second at most.
#pragma once

namespace vesta {

class NoFork {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;

  // For base/at_fork.cpp: before fork(), and after it in the parent and in the child.
  static void wait_for_others();
  static void go_on();
  static void start_anew();
};

}  // namespace vesta
