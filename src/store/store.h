// Entries by key in a folder, for every process of one user: what one has computed, the next one reads.
//
// One file an entry, written under another name and renamed, so that readers see all of it or nothing; a digest of key
// and content stands in for fsync: an entry that a crash has damaged is not found. Nothing here is needed for a result:
// whatever goes wrong is a miss, said once in the log. The folder holds machine code, so that it is used only where it
// and its files belong to the user and nobody else may write to it.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vesta::store {

constexpr int64_t kMostBytes = int64_t{1} << 30;

class Store {
 public:
  // Makes the folder if it is not there. Above `most_bytes` the entries that were used the longest time ago go.
  // `further`: folders that are read after it, and never written: a container image's, a cluster's. One that does not
  // belong to the user or root, or that others may write to, is left out.
  explicit Store(std::filesystem::path folder, int64_t most_bytes = kMostBytes,
                 std::vector<std::filesystem::path> further = {});
  ~Store();  // after what put() was given is written
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Keys consist of letters, digits and '_', at least 3 of them; others are never found.
  std::optional<std::string> find(std::string_view key);
  // Returns at once: a thread writes.
  void put(std::string key, std::string content);
  // Waits until everything is written, at most so long. False: it is not.
  bool flush(std::chrono::milliseconds most);

 private:
  struct State;
  std::shared_ptr<State> state_;  // the thread's as well
};

// An entry as the command `vesta` shows it. list() and trim() work on any folder, not only on that of this process.
struct Listed {
  std::string key;
  int64_t bytes = 0;  // on the disk
  int64_t used = 0;   // seconds since 1970, exact to the hour
  bool intact = true;
};
// Every entry, the one used last first. `check`: reads each and compares its digest. Throws UserError where the folder
// is unsafe to use or cannot be read; a folder that is not there has no entries.
std::vector<Listed> list(const std::filesystem::path& folder, bool check);
// An entry as it is, which does not count as a use. nullopt: it is not there, or damaged.
std::optional<std::string> read(const std::filesystem::path& folder, std::string_view key);
// Deletes the entries that were used the longest time ago until at most `most_bytes` are left, and files that killed
// processes left unfinished; with `damaged`, also entries whose digest is wrong. Returns the number of bytes deleted.
int64_t trim(const std::filesystem::path& folder, int64_t most_bytes, bool damaged = false);

// Where shared() looks: nullopt where there is no cache.
std::optional<std::filesystem::path> folder_of_user();

// The folders in $VESTA_CACHE_READ, separated by ':'.
std::vector<std::filesystem::path> further_folders();

// That of this process: in $VESTA_CACHE_DIR, or in the user's folder for caches ($XDG_CACHE_HOME/vesta,
// ~/.cache/vesta), and further_folders(). nullptr: $VESTA_CACHE_DIR is empty, or there is no such folder. Flushed when
// the process ends, within 0.2 s. A forked child has its own.
Store* shared();

}  // namespace vesta::store
