// Runs a program of Vesta's own in a process beside this one: for work that may crash, run out of memory or never end.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/cancel.h"

namespace vesta::machine {

// The path of a program that lies beside the library, or the program, that has this code; nullopt: it is not there.
std::optional<std::string> program_beside(std::string_view name);

struct ChildEnded {
  std::string answer;         // what it wrote
  std::string why;            // why it has no answer: "it crashed (Segmentation fault)"; empty: it ended with status 0
  std::optional<int> status;  // its exit status
};

// Starts `program`, which reads `request` from its standard input until the end and writes its answer to its standard
// output, and waits for its end. It is killed at `end`, and if `cancel`, which may be null, is cancelled, which throws
// Cancelled. It has no environment, a process group of its own (Ctrl-C does not reach it), and this process's id as
// its only argument, for leave_with_parent(). Starts no copy of this process: posix_spawn().
ChildEnded run_child(const std::string& program, std::string_view request, std::chrono::steady_clock::time_point end,
                     const CancelToken* cancel);

// For such a program: from now on it is killed when the thread that started it ends, at the latest with its process.
// False: that has happened already. `parent`: the program's argument.
bool leave_with_parent(const char* parent);

}  // namespace vesta::machine
