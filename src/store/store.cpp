#include "store/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/std.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <tuple>

#include "base/at_fork.h"
#include "base/check.h"
#include "base/events.h"
#include "base/log.h"
#include "base/split.h"
#include "store/entry.h"

namespace vesta::store {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

namespace {

constexpr off_t kMostEntryBytes = off_t{256} << 20;
constexpr size_t kMostWaiting = 4096;         // entries; reached if a process compiles faster than the disk writes
constexpr time_t kUsedAgain = 60L * 60;       // seconds: the precision of an entry's time of use
constexpr time_t kAbandoned = 24L * 60 * 60;  // seconds: unfinished files older than this belong to killed processes
constexpr int64_t kWrittenBetweenTrims = int64_t{32} << 20;

std::string reason(int error) { return std::strerror(error); }

bool is_key(std::string_view key) {
  return key.size() >= 3 && key.size() <= 128 &&
         std::all_of(key.begin(), key.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

// The last two characters of a key choose the subfolder, because digests end in them.
fs::path place_of(const fs::path& folder, std::string_view key) {
  return folder / key.substr(key.size() - 2) / key.substr(0, key.size() - 2);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// Empty if only the user and root can have written the file.
std::string why_unsafe(const struct stat& s) {
  if (s.st_uid != geteuid() && s.st_uid != 0) return "it belongs to another user";
  if (s.st_mode & (S_IWGRP | S_IWOTH)) return "other users may write to it";
  return "";
}

enum class Use : bool { Counts, DoesNot };

std::optional<std::string> read_file(const fs::path& path, Use use = Use::DoesNot) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat s{};
  if (file.get() < 0 || fstat(file.get(), &s) != 0) return std::nullopt;
  if (!S_ISREG(s.st_mode) || s.st_size > kMostEntryBytes || !why_unsafe(s).empty()) return std::nullopt;
  std::string bytes(static_cast<size_t>(s.st_size), '\0');
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::read(file.get(), bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::nullopt;
    at += static_cast<size_t>(n);
  }
  const time_t now = time(nullptr);
  if (use == Use::Counts && (s.st_mtime < now - kUsedAgain || s.st_mtime > now)) futimens(file.get(), nullptr);
  return bytes;
}

// Returns 0 or the error.
int write_file(const fs::path& path, const std::string& bytes) {
  static std::atomic<uint64_t> count{0};
  const fs::path unfinished = path.parent_path() / fmt::format("{}.{}.unfinished", getpid(), count++);
  const Descriptor file(open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() < 0) return errno;
  int error = 0;
  for (size_t at = 0; at < bytes.size() && error == 0;) {
    const ssize_t n = write(file.get(), bytes.data() + at, bytes.size() - at);
    if (n > 0) at += static_cast<size_t>(n);
    if (n < 0 && errno != EINTR) error = errno;
  }
  if (error == 0 && rename(unfinished.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) unlink(unfinished.c_str());
  return error;
}

struct Found {
  fs::path path;
  int64_t bytes = 0;
  timespec used{};
};

// A time in the future means that the clock was set back later. Such an entry counts as the least recently used.
std::pair<int64_t, int64_t> order_of(const timespec& used, time_t now) {
  return used.tv_sec > now + kUsedAgain ? std::pair<int64_t, int64_t>(0, 0)
                                        : std::pair<int64_t, int64_t>(used.tv_sec, used.tv_nsec);
}

// The files of entries, most recently used first. Calls abandoned(path) for each unfinished file of a killed process.
template <class F>
std::vector<Found> files_in(const fs::path& folder, F&& abandoned) {
  std::vector<Found> found;
  const time_t now = time(nullptr);
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    struct stat s{};
    if (lstat(at->path().c_str(), &s) != 0 || !S_ISREG(s.st_mode)) continue;
    if (at->path().extension() != ".unfinished")
      found.push_back({at->path(), int64_t{s.st_blocks} * 512, s.st_mtim});
    else if (s.st_mtime < now - kAbandoned || s.st_mtime > now + kAbandoned)
      abandoned(at->path());
  }
  std::sort(found.begin(), found.end(), [now](const Found& x, const Found& y) {
    const auto a = order_of(x.used, now), b = order_of(y.used, now);
    return std::tie(b, x.path) < std::tie(a, y.path);  // most recently used first
  });
  return found;
}

// The inverse of place_of().
std::string key_of(const fs::path& path) { return path.filename().string() + path.parent_path().filename().string(); }

bool is_intact(const fs::path& path) {
  const auto file = read_file(path);
  return file && decode(key_of(path), *file).has_value();
}

// Trims to nine tenths of `most_bytes`, so that the next entry does not trim again.
void trim_to_bound(const fs::path& folder, int64_t most_bytes) {
  int64_t all = 0;
  const std::vector<Found> found = files_in(folder, [](const fs::path& p) { unlink(p.c_str()); });
  for (const Found& f : found) all += f.bytes;
  if (all > most_bytes) trim(folder, most_bytes / 10 * 9);
}

}  // namespace

struct Store::State {
  fs::path folder;
  std::vector<fs::path> further;  // the safe ones
  int64_t most_bytes = 0;
  bool usable = false;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::pair<std::string, std::string>> waiting;  // the first is being written
  bool started = false, over = false;
  std::atomic<bool> read_only{false};
  int64_t written = kWrittenBetweenTrims;  // since the last trim; a trim follows the first entry

  void open_folder() {
    std::error_code error;
    fs::create_directories(folder.parent_path(), error);
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
      return log::warn_once(fmt::format("the cache of compiled code in {} is not used: {}", folder, reason(errno)));
    usable = is_safe(folder);
  }

  static bool is_safe(const fs::path& folder) {
    struct stat s{};
    std::string why = stat(folder.c_str(), &s) != 0 ? reason(errno) : S_ISDIR(s.st_mode) ? why_unsafe(s) : "no folder";
    if (!why.empty()) log::warn_once(fmt::format("the cache of compiled code in {} is not used: {}", folder, why));
    return why.empty();
  }

  void write_all() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return over || !waiting.empty(); });
      if (waiting.empty()) return;
      const auto& [key, content] = waiting.front();  // put() appends, and leaves this entry where it is
      lock.unlock();
      write(key, content);
      lock.lock();
      waiting.pop_front();
      changed.notify_all();
    }
  }

  // What is not yet written.
  std::optional<std::string> find_waiting(std::string_view key) {
    const std::lock_guard lock(mutex);
    const auto last = std::find_if(waiting.rbegin(), waiting.rend(), [&](const auto& w) { return w.first == key; });
    return last == waiting.rend() ? std::nullopt : std::optional(last->second);
  }

  void write(const std::string& key, const std::string& content) {
    if (read_only) return;
    const fs::path path = place_of(folder, key);
    if (mkdir(path.parent_path().c_str(), 0700) == 0 || errno == EEXIST) {
      const std::string file = encode(key, content);
      if (const int error = write_file(path, file); error == 0) {
        written += static_cast<int64_t>(file.size());
        if (written >= kWrittenBetweenTrims) written = 0, trim_to_bound(folder, most_bytes);
        return;
      } else {
        errno = error;
      }
    }
    read_only = true;
    log::warn_once(fmt::format("the cache of compiled code in {} is only read from now on: {}", folder, reason(errno)));
  }
};

Store::Store(fs::path folder, int64_t most_bytes, std::vector<fs::path> further) : state_(std::make_shared<State>()) {
  state_->folder = std::move(folder);
  state_->most_bytes = most_bytes;
  state_->open_folder();
  std::copy_if(further.begin(), further.end(), std::back_inserter(state_->further), State::is_safe);
}

Store::~Store() {
  std::unique_lock lock(state_->mutex);
  state_->over = true;
  state_->changed.notify_all();
  state_->changed.wait(lock, [&] { return state_->waiting.empty(); });
}

std::optional<std::string> Store::find(std::string_view key) {
  if (!is_key(key)) return std::nullopt;
  events::Span span(events::Type::Entry, key);
  std::optional<std::string> found;
  if (state_->usable) {
    found = state_->find_waiting(key);  // first, because an entry leaves the queue once its file is written
    if (const auto file = found ? std::nullopt : read_file(place_of(state_->folder, key), Use::Counts))
      found = decode(key, *file);
  }
  for (const fs::path& folder : state_->further)
    if (!found) found = read(folder, key);
  if (events::Event* const e = span.event()) e->entry = key, e->detail = found ? "found" : "missed";
  return found;
}

void Store::put(std::string key, std::string content) {
  if (!state_->usable || state_->read_only || !is_key(key)) return;
  const std::lock_guard lock(state_->mutex);
  if (state_->waiting.size() >= kMostWaiting) return;
  events::record(events::Type::Entry, key, "written", {}, key);
  state_->waiting.emplace_back(std::move(key), std::move(content));
  if (!std::exchange(state_->started, true)) std::thread([state = state_] { state->write_all(); }).detach();
  state_->changed.notify_all();
}

bool Store::flush(milliseconds most) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, most, [&] { return state_->waiting.empty(); });
}

std::vector<Listed> list(const fs::path& folder, bool check) {
  struct stat s{};
  if (stat(folder.c_str(), &s) != 0) {
    VESTA_USER_CHECK(errno == ENOENT, "{} cannot be read: {}", folder, reason(errno));
    return {};
  }
  VESTA_USER_CHECK(S_ISDIR(s.st_mode), "{} is not a folder", folder);
  VESTA_USER_CHECK(why_unsafe(s).empty(), "{} is not used as a cache: {}", folder, why_unsafe(s));
  std::vector<Listed> out;
  for (const Found& f : files_in(folder, [](const fs::path&) {}))
    if (const std::string key = key_of(f.path); is_key(key))
      out.push_back({key, f.bytes, f.used.tv_sec, !check || is_intact(f.path)});
  return out;
}

std::optional<std::string> read(const fs::path& folder, std::string_view key) {
  const auto file = is_key(key) ? read_file(place_of(folder, key)) : std::nullopt;
  return file ? decode(key, *file) : std::nullopt;
}

int64_t trim(const fs::path& folder, int64_t most_bytes, bool damaged) {
  list(folder, false);  // throws if the folder belongs to another user
  int64_t kept = 0, deleted = 0;
  for (const Found& f : files_in(folder, [](const fs::path& p) { unlink(p.c_str()); })) {
    if (!is_key(key_of(f.path))) continue;  // not a file of the store
    const bool stays = kept + f.bytes <= most_bytes && !(damaged && !is_intact(f.path));
    if (stays)
      kept += f.bytes;
    else if (unlink(f.path.c_str()) == 0)
      deleted += f.bytes;
  }
  return deleted;
}

std::vector<fs::path> further_folders() {
  const char* named = std::getenv("VESTA_CACHE_READ");
  const std::vector<std::string_view> folders = split(named ? named : "", ':');
  return {folders.begin(), folders.end()};
}

std::optional<fs::path> folder_of_user() {
  if (const char* named = std::getenv("VESTA_CACHE_DIR"))
    return *named ? std::optional<fs::path>(fs::absolute(named)) : std::nullopt;
  if (const char* caches = std::getenv("XDG_CACHE_HOME"); caches && *caches == '/') return fs::path(caches) / "vesta";
  const char* home = std::getenv("HOME");
  if (!home || *home != '/') {
    const passwd* entry = getpwuid(geteuid());
    home = entry ? entry->pw_dir : nullptr;
  }
  if (!home || *home != '/') return std::nullopt;
  return fs::path(home) / ".cache" / "vesta";
}

namespace {

// Never destroyed, because threads may use it until the process ends.
std::mutex of_process_mutex;
std::atomic<Store*> of_process{nullptr};
std::atomic<bool> is_made{false};

// A forked child has no writing thread and may inherit locked mutexes, so it makes a store of its own. fork() waits
// while another thread is in shared().
const AtFork at_fork(
    ForkStage::Registries, [] { of_process_mutex.lock(); }, [] { of_process_mutex.unlock(); },
    [] {
      of_process_mutex.unlock();
      of_process = nullptr;
      is_made = false;
    });

}  // namespace

Store* shared() {
  if (is_made) return of_process;
  const std::lock_guard lock(of_process_mutex);
  if (is_made) return of_process;
  static const bool once = [] {
    std::atexit([] {
      constexpr milliseconds kMostAtExit{200};
      if (Store* s = of_process) s->flush(kMostAtExit);
    });
    return true;
  }();
  (void)once;
  const std::optional<fs::path> folder = folder_of_user();
  of_process = folder ? new Store(*folder, kMostBytes, further_folders()) : nullptr;
  is_made = true;
  return of_process;
}

}  // namespace vesta::store
