#include "program/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/check.h"
#include "base/digest.h"
#include "program/program.h"

namespace vesta::program {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "VESTAPRG";
constexpr size_t kProgramAt = 64, kDigestAt = 40, kStorageAlign = 64, kWeightsAlign = 4096;

std::string reason(int error) { return std::generic_category().message(error); }
size_t aligned(size_t n, size_t to) { return (n + to - 1) / to * to; }

struct Header {
  char magic[8] = {};
  uint32_t format = kFormat, zero = 0;
  uint64_t program_bytes = 0, weights_at = 0, file_bytes = 0;
  uint64_t digest[2] = {};
  uint64_t zeros = 0;
};
static_assert(sizeof(Header) == kProgramAt && offsetof(Header, digest) == kDigestAt);

void set_digest(Header& h, std::string_view program, uint64_t (&out)[2]) {
  const auto [high, low] = digest_pair({{reinterpret_cast<const char*>(&h), kDigestAt}, program});
  out[0] = high;
  out[1] = low;
}

// A temporary file that is deleted unless it is renamed.
class Unfinished {
 public:
  explicit Unfinished(const fs::path& path) : path_(path), name_(path.string() + ".XXXXXX") {
    fd_ = mkstemp(name_.data());
    if (fd_ < 0) fail();
    const mode_t mask = umask(0);
    umask(mask);
    fchmod(fd_, 0666 & ~mask);
  }
  ~Unfinished() {
    if (fd_ >= 0) close(fd_);
    if (!name_.empty()) unlink(name_.c_str());
  }
  Unfinished& operator=(Unfinished&&) = delete;  // neither copied nor moved

  // Bytes that are never written are zeros.
  void resize(size_t bytes) {
    if (ftruncate(fd_, static_cast<off_t>(bytes)) != 0) fail();
  }
  void write(size_t at, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail();
      bytes.remove_prefix(static_cast<size_t>(n));
      at += static_cast<size_t>(n);
    }
  }
  void finish() {
    if (close(std::exchange(fd_, -1)) != 0 || rename(name_.c_str(), path_.c_str()) != 0) fail();
    name_.clear();
  }

 private:
  [[noreturn]] void fail() const {
    throw UserError(fmt::format("{} cannot be written: {}", path_.string(), reason(errno)));
  }
  fs::path path_;
  std::string name_;
  int fd_ = -1;
};

}  // namespace

Mapping::Mapping(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  VESTA_USER_CHECK(fd >= 0, "{} cannot be read: {}", path.string(), reason(errno));
  struct stat s{};
  const bool known = fstat(fd, &s) == 0 && S_ISREG(s.st_mode);
  size_ = known ? static_cast<size_t>(s.st_size) : 0;
  void* at = size_ ? mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) : nullptr;
  const int error = errno;
  close(fd);
  VESTA_USER_CHECK(known, "{} is not a file", path.string());
  VESTA_USER_CHECK(at != MAP_FAILED, "{} cannot be mapped: {}", path.string(), reason(error));
  data_ = static_cast<char*>(at);
}

Mapping::~Mapping() {
  if (data_) munmap(data_, size_);
}

Program read(std::string_view file, size_t* weights_at) {
  Header h;
  if (file.size() < sizeof h || !file.starts_with(kMagic)) throw UserError("it is not a program saved by Vesta");
  std::memcpy(&h, file.data(), sizeof h);
  if (h.format != kFormat)
    throw UserError(fmt::format("it has format {}, but this version of Vesta reads format {}; save the program again",
                                h.format, kFormat));
  if (h.file_bytes != file.size())
    throw UserError(fmt::format("it is incomplete: it has {} of {} bytes", file.size(), h.file_bytes));
  if (h.program_bytes > file.size() - kProgramAt || h.weights_at < kProgramAt + h.program_bytes ||
      h.weights_at > file.size())
    throw UserError("it is damaged");
  const std::string_view bytes = file.substr(kProgramAt, h.program_bytes);
  uint64_t expected[2];
  set_digest(h, bytes, expected);
  if (std::memcmp(expected, h.digest, sizeof expected) != 0) throw UserError("it is damaged: its digest differs");
  Program program;
  try {
    program = decode(bytes);
  } catch (const InternalError& e) {
    throw UserError(e.what());
  }
  const auto room = static_cast<int64_t>(file.size() - h.weights_at);
  for (const Storage& s : program.storages)
    if (s.at >= 0 && (s.at % static_cast<int64_t>(kStorageAlign) != 0 || s.at > room || s.bytes > room - s.at))
      throw UserError("it is damaged: a weight lies beyond its end");
  if (weights_at) *weights_at = h.weights_at;
  return program;
}

Opened open(const fs::path& path) {
  Opened out;
  out.mapping = std::make_shared<Mapping>(path);
  try {
    out.program = read(out.mapping->bytes(), &out.weights_at);
  } catch (const UserError& e) {
    throw UserError(fmt::format("{} cannot be loaded: {}", path.string(), e.what()));
  }
  return out;
}

std::vector<int> check_weights(const Opened& file) {
  std::vector<int> wrong;
  for (size_t i = 0; i < file.program.storages.size(); ++i) {
    const Storage& s = file.program.storages[i];
    if (s.at >= 0 && digest_of({file.memory(s), static_cast<size_t>(s.bytes)}) != s.digest)
      wrong.push_back(static_cast<int>(i));
  }
  return wrong;
}

int64_t save(Program program, std::span<const Memory> memory, const fs::path& path) {
  VESTA_CHECK(memory.size() == program.storages.size(), "{} storages, but memory for {}", memory.size(),
              program.storages.size());
  size_t end = 0;
  for (size_t i = 0; i < memory.size(); ++i) {
    if (!memory[i]) continue;
    program.storages[i].at = static_cast<int64_t>(end);
    end = aligned(end + static_cast<size_t>(program.storages[i].bytes), kStorageAlign);
  }
  Header h;
  std::memcpy(h.magic, kMagic.data(), kMagic.size());
  h.program_bytes = encode(program).size();  // the digests are known once the weights are written
  h.weights_at = aligned(kProgramAt + h.program_bytes, kWeightsAlign);
  h.file_bytes = h.weights_at + end;
  Unfinished out(path);
  out.resize(h.file_bytes);
  for (size_t i = 0; i < memory.size(); ++i) {
    if (!memory[i]) continue;
    Storage& s = program.storages[i];
    const std::shared_ptr<const char> data = memory[i]();
    const std::string_view bytes(data.get(), static_cast<size_t>(s.bytes));
    s.digest = digest_of(bytes);
    out.write(h.weights_at + static_cast<size_t>(s.at), bytes);
  }
  const std::string bytes = encode(program);
  VESTA_CHECK(bytes.size() == h.program_bytes, "a program has {} bytes after it had {}", bytes.size(), h.program_bytes);
  set_digest(h, bytes, h.digest);
  out.write(0, {reinterpret_cast<const char*>(&h), sizeof h});
  out.write(kProgramAt, bytes);
  out.finish();
  return static_cast<int64_t>(h.file_bytes);
}

}  // namespace vesta::program
