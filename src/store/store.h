// Entries by key in a folder that all processes of one user share: what one process computes, the next one reads.
//
// Each entry is one file, written under another name and renamed, so that readers see all of it or nothing. A digest of
// key and content replaces fsync: an entry that a crash has damaged is not found. No result depends on the store: every
// failure is a miss, which the log names once. The folder holds machine code, so it is used only if it and its files
// belong to the user and nobody else may write to it.
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
  // Makes the folder if it does not exist. Beyond `most_bytes` the least recently used entries are deleted. `further`:
  // folders that are only read, after the first, such as a container image's or a cluster's. Folders that belong to
  // neither the user nor root, or that others may write to, are left out.
  explicit Store(std::filesystem::path folder, int64_t most_bytes = kMostBytes,
                 std::vector<std::filesystem::path> further = {});
  ~Store();  // waits until all entries given to put() are written
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Keys consist of letters, digits and '_' and have at least 3 characters. Other keys are never found.
  std::optional<std::string> find(std::string_view key);
  // Returns at once; a thread writes the entry. find() has it from now on.
  void put(std::string key, std::string content);
  // Waits until everything is written, but at most this long. False: something is not written yet.
  bool flush(std::chrono::milliseconds most);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the writing thread
};

// An entry as the command `vesta` shows it. list() and trim() work on any folder, not only on that of this process.
struct Listed {
  std::string key;
  int64_t bytes = 0;  // on disk
  int64_t used = 0;   // seconds since 1970, exact to the hour
  bool intact = true;
};
// All entries, most recently used first. `check`: reads each entry and compares its digest. Throws UserError if the
// folder is unsafe to use or cannot be read. A missing folder has no entries.
std::vector<Listed> list(const std::filesystem::path& folder, bool check);
// Reads an entry without counting that as a use. nullopt: it does not exist or is damaged.
std::optional<std::string> read(const std::filesystem::path& folder, std::string_view key);
// Deletes the least recently used entries until at most `most_bytes` are left, unfinished files of killed processes,
// and, with `damaged`, entries whose digest is wrong. Returns the number of deleted bytes.
int64_t trim(const std::filesystem::path& folder, int64_t most_bytes, bool damaged = false);

// The folder that shared() uses; nullopt: there is no cache.
std::optional<std::filesystem::path> folder_of_user();

// The folders in $VESTA_CACHE_READ, separated by ':'.
std::vector<std::filesystem::path> further_folders();

// The store of this process: $VESTA_CACHE_DIR or the user's cache folder ($XDG_CACHE_HOME/vesta, ~/.cache/vesta), and
// further_folders(). nullptr: $VESTA_CACHE_DIR is empty, or there is no such folder. When the process ends it is
// flushed for at most 0.2 s. A forked child has its own store.
Store* shared();

}  // namespace vesta::store
