// Takes rights from the calling thread and from the threads that it starts later, for ever: code that comes from
// elsewhere then runs without network and without write access to files.
#pragma once

#include <string>
#include <vector>

namespace vesta::machine {

// Sockets are refused by seccomp, writing to files by Landlock (files below /dev can be written, as devices are). What
// the kernel cannot refuse is returned, one sentence each; empty: both are refused.
std::vector<std::string> confine();

}  // namespace vesta::machine
