// A confined process neither writes files nor opens sockets.
#include "machine/confine.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <thread>

namespace {

enum : int { kWrote = 1, kRemoved = 2, kConnected = 4, kNotRead = 8, kNoDevice = 16, kFiles = 32, kNetwork = 64 };

// In a child: what it can do although it is confined, and what the kernel cannot refuse.
int confined(const std::string& file) {
  const pid_t child = fork();
  if (child == 0) {
    int found = 0;
    for (const std::string& missing : vesta::machine::confine())
      found |= missing.starts_with("files") ? kFiles : kNetwork;
    std::thread([&] {
      if (open((file + ".new").c_str(), O_CREAT | O_WRONLY, 0600) >= 0 || open(file.c_str(), O_WRONLY) >= 0)
        found |= kWrote;
      if (unlink(file.c_str()) == 0) found |= kRemoved;
      if (socket(AF_INET, SOCK_STREAM, 0) >= 0) found |= kConnected;
      if (open(file.c_str(), O_RDONLY) < 0) found |= kNotRead;
      if (open("/dev/null", O_WRONLY) < 0) found |= kNoDevice;
    }).join();
    _exit(found);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Confine, RefusesWhatItSays) {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("vesta-confine-" + std::to_string(getpid()))).string();
  ASSERT_TRUE(std::fclose(std::fopen(file.c_str(), "w")) == 0);
  const int found = confined(file);
  EXPECT_EQ(found & (kNotRead | kNoDevice), 0);
  if (!(found & kFiles)) {
    EXPECT_EQ(found & (kWrote | kRemoved), 0);
  }
  if (!(found & kNetwork)) {
    EXPECT_EQ(found & kConnected, 0);
  }
  // This process keeps its rights.
  EXPECT_EQ(std::remove(file.c_str()), 0);
  std::filesystem::remove(file + ".new");
}

}  // namespace
