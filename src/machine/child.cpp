#include "machine/child.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

namespace vesta::machine {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kBetweenChecks{10};

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  int get() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

// The settings of a new process, and its process.
class Child {
 public:
  Child() {
    posix_spawn_file_actions_init(&files_);
    posix_spawnattr_init(&settings_);
    // The signals that this thread blocks or this process ignores are no matter of the child's.
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&settings_, &none);
    posix_spawnattr_setsigdefault(&settings_, &all);
    posix_spawnattr_setpgroup(&settings_, 0);
    posix_spawnattr_setflags(&settings_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~Child() {
    posix_spawnattr_destroy(&settings_);
    posix_spawn_file_actions_destroy(&files_);
    if (process_ < 0) return;
    kill(process_, SIGKILL);
    while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Child(const Child&) = delete;

  // Returns an error of errno, or 0.
  int start(const std::string& program, int socket) {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO}) posix_spawn_file_actions_adddup2(&files_, socket, fd);
    posix_spawn_file_actions_addopen(&files_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    std::string path = program, parent = std::to_string(getpid());
    char* const arguments[] = {path.data(), parent.data(), nullptr};
    char* const environment[] = {nullptr};  // nothing of it changes what the program makes
    return posix_spawn(&process_, path.c_str(), &files_, &settings_, arguments, environment);
  }
  // Whether the process has ended; its status is known then, unless another part of the program has asked for it.
  bool has_ended(std::optional<int>& status) {
    int s = 0;
    const pid_t ended = waitpid(process_, &s, WNOHANG);
    if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
    if (ended == process_) status = s;
    process_ = -1;
    return true;
  }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t settings_;
  pid_t process_ = -1;
};

std::string why_it_failed(std::optional<int> status) {
  if (!status) return "how it ended is not known";
  if (WIFSIGNALED(*status)) return fmt::format("it crashed ({})", strsignal(WTERMSIG(*status)));
  return WEXITSTATUS(*status) == 0 ? "" : fmt::format("it ended with the status {}", WEXITSTATUS(*status));
}

}  // namespace

std::optional<std::string> program_beside(std::string_view name) {
  Dl_info here{};
  if (!dladdr(reinterpret_cast<const void*>(&program_beside), &here) || !here.dli_fname) return std::nullopt;
  std::error_code error;
  // Of a program itself, dladdr() gives the name by which it was called.
  const std::filesystem::path self = std::strchr(here.dli_fname, '/') ? std::filesystem::path(here.dli_fname)
                                                                      : std::filesystem::path("/proc/self/exe");
  const auto path = std::filesystem::canonical(self, error).parent_path() / name;
  if (error || !std::filesystem::exists(path, error)) return std::nullopt;
  return path.string();
}

ChildEnded run_child(const std::string& program, std::string_view request, Clock::time_point end,
                     const CancelToken* cancel) {
  const auto failed = [](int error) {
    return ChildEnded{{}, fmt::format("it cannot be started: {}", std::strerror(error)), {}};
  };
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return failed(errno);
  const Descriptor ours(sockets[0]);
  Descriptor theirs(sockets[1]);
  Child child;
  if (const int error = child.start(program, theirs.get())) return failed(error);
  theirs.close();

  ChildEnded ended;
  bool open = true, writes = true;
  const auto waits = [&] {
    if (cancel) cancel->check();
    return Clock::now() < end;
  };
  while (open) {
    if (!waits()) return {{}, "it did not end in time", {}};
    if (writes && request.empty()) {
      shutdown(ours.get(), SHUT_WR);
      writes = false;
    }
    pollfd ready{ours.get(), static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0};
    if (poll(&ready, 1, static_cast<int>(kBetweenChecks.count())) <= 0) continue;
    if (ready.revents & POLLOUT) {
      const ssize_t sent = send(ours.get(), request.data(), request.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) request.remove_prefix(static_cast<size_t>(sent));
      if (sent < 0 && errno != EAGAIN && errno != EINTR) writes = false;  // it reads no more: its status says why
    }
    if (ready.revents & (POLLIN | POLLHUP | POLLERR)) {
      char part[1 << 16];
      const ssize_t received = recv(ours.get(), part, sizeof(part), MSG_DONTWAIT);
      if (received > 0) ended.answer.append(part, static_cast<size_t>(received));
      open = received > 0 || (received < 0 && (errno == EAGAIN || errno == EINTR));
    }
  }
  std::optional<int> status;
  while (!child.has_ended(status)) {
    if (!waits()) return {{}, "it did not end in time", {}};
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ended.why = why_it_failed(status);
  if (status && WIFEXITED(*status)) ended.status = WEXITSTATUS(*status);
  return ended;
}

bool leave_with_parent(const char* parent) {
  return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == std::atoi(parent);
}

}  // namespace vesta::machine
