#include "machine/confine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

namespace vesta::machine {
namespace {

// linux/landlock.h, which older systems do not have.
struct RulesetAttributes {
  uint64_t handled_access_fs;
};
struct [[gnu::packed]] PathRule {
  uint64_t allowed_access;
  int32_t parent_fd;
};
constexpr long kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;
constexpr unsigned kAskVersion = 1;
constexpr int kPathBeneath = 1;
constexpr uint64_t kWriteFile = 1 << 1, kRemoveDirectory = 1 << 4, kMakeLast = 1 << 12, kRefer = 1 << 13,
                   kTruncate = 1 << 14;

// Every access that changes files: from kRemoveDirectory to kMakeLast they are consecutive.
uint64_t writes(long version) {
  uint64_t all = kWriteFile;
  for (uint64_t bit = kRemoveDirectory; bit <= kMakeLast; bit <<= 1) all |= bit;
  if (version >= 2) all |= kRefer;
  if (version >= 3) all |= kTruncate;
  return all;
}

std::optional<std::string> refuse_writes() {
  const long version = syscall(kCreateRuleset, nullptr, 0, kAskVersion);
  if (version < 1) return "files can be written: this kernel has no Landlock";
  const RulesetAttributes attributes{writes(version)};
  const int rules = static_cast<int>(syscall(kCreateRuleset, &attributes, sizeof(attributes), 0));
  if (rules < 0) return fmt::format("files can be written: {}", std::strerror(errno));
  const int devices = open("/dev", O_PATH | O_CLOEXEC);
  if (devices >= 0) {
    const PathRule rule{kWriteFile, devices};
    syscall(kAddRule, rules, kPathBeneath, &rule, 0);
    close(devices);
  }
  const bool done = syscall(kRestrictSelf, rules, 0) == 0;
  const int error = errno;
  close(rules);
  if (!done) return fmt::format("files can be written: {}", std::strerror(error));
  return std::nullopt;
}

std::optional<std::string> refuse_network() {
#if defined(__x86_64__)
  constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
  constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
  return "the network can be used: no filter is written for this processor";
#endif
  // io_uring opens sockets, too. Numbers from 0x40000000 on are those of x32, another name for the same calls.
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(sizeof(code) / sizeof(code[0])), code};
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0) return std::nullopt;
  return fmt::format("the network can be used: {}", std::strerror(errno));
}

}  // namespace

std::vector<std::string> confine() {
  // Both need it: no program that is started later gets more rights than this one.
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return {fmt::format("files can be written and the network can be used: {}", std::strerror(errno))};
  }
  std::vector<std::string> out;
  for (const auto& missing : {refuse_writes(), refuse_network()})
    if (missing) out.push_back(*missing);
  return out;
}

}  // namespace vesta::machine
