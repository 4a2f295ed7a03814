// Entries in a folder: found, damaged, shared by processes that are killed, refused where others may write.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "store/entry.h"
#include "store/store.h"

namespace {

namespace fs = std::filesystem;
using vesta::store::Store;
using namespace std::chrono_literals;

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() : folder_(fs::temp_directory_path() / fmt::format("vesta_store_{}_{}", getpid(), count_++)) {}
  ~StoreTest() override {
    std::error_code error;
    fs::permissions(folder_, fs::perms::owner_all, error);
    fs::remove_all(folder_, error);
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& e : fs::recursive_directory_iterator(folder_))
      if (e.is_regular_file()) found.push_back(e.path());
    return found;
  }
  const fs::path folder_;

 private:
  static inline int count_ = 0;
};

std::string content_of(int i) {
  return std::string(static_cast<size_t>(100 + i % 5000), static_cast<char>('a' + i % 26));
}
std::string key_of(int i) { return fmt::format("key_{:08x}", i * 2654435761U); }

TEST_F(StoreTest, WhatIsPutIsFoundByLaterProcesses) {
  {
    Store store(folder_);
    EXPECT_EQ(store.find("key_1"), std::nullopt);
    store.put("key_1", "content");
    store.put("key_2", std::string("\0binary\n", 8));
    store.put("key_3", "");
    EXPECT_TRUE(store.flush(5s));
    EXPECT_EQ(store.find("key_1"), "content");
  }
  Store again(folder_);
  EXPECT_EQ(again.find("key_1"), "content");
  EXPECT_EQ(again.find("key_2"), std::string("\0binary\n", 8));
  EXPECT_EQ(again.find("key_3"), "");
  EXPECT_EQ(again.find("key_4"), std::nullopt);
  EXPECT_EQ(again.find("../key_1"), std::nullopt);
  EXPECT_EQ(again.find(""), std::nullopt);
}

TEST_F(StoreTest, ADamagedEntryIsNotFound) {
  Store store(folder_);
  store.put("key_1", std::string(1000, 'x'));
  ASSERT_TRUE(store.flush(5s));
  const fs::path file = files().at(0);
  std::ifstream in(file, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    std::string damaged = whole;
    if (i % 3 == 0)
      damaged.resize(random() % damaged.size());
    else
      damaged[random() % damaged.size()] ^= static_cast<char>(1 + random() % 255);
    std::ofstream(file, std::ios::binary | std::ios::trunc) << damaged;
    EXPECT_EQ(store.find("key_1"), std::nullopt) << i;
  }
  // Another key's entry in its place.
  std::ofstream(file, std::ios::binary | std::ios::trunc) << vesta::store::encode("key_2", "content");
  EXPECT_EQ(store.find("key_1"), std::nullopt);
  store.put("key_1", "new");
  ASSERT_TRUE(store.flush(5s));
  EXPECT_EQ(store.find("key_1"), "new");
}

TEST_F(StoreTest, AFolderThatOthersMayWriteToIsNotUsed) {
  fs::create_directory(folder_);
  fs::permissions(folder_, fs::perms::owner_all | fs::perms::group_write);
  Store store(folder_);
  store.put("key_1", "content");
  EXPECT_TRUE(store.flush(5s));
  EXPECT_EQ(store.find("key_1"), std::nullopt);
  EXPECT_TRUE(files().empty());
}

// An image's or a cluster's folder: read after the user's own, and left as it is.
TEST_F(StoreTest, FurtherFoldersAreReadAndNeverWritten) {
  const fs::path image = folder_ / "image", unsafe = folder_ / "unsafe", own = folder_ / "own";
  for (const auto& [folder, key] : {std::pair(image, "key_1"), {unsafe, "key_2"}}) {
    Store store(folder);
    store.put(key, "content");
    ASSERT_TRUE(store.flush(5s));
  }
  fs::permissions(unsafe, fs::perms::others_write, fs::perm_options::add);
  const auto before = files().size();
  {
    Store store(own, vesta::store::kMostBytes, {folder_ / "none", unsafe, image});
    EXPECT_EQ(store.find("key_1"), "content");
    EXPECT_EQ(store.find("key_2"), std::nullopt);
    store.put("key_3", "new");
    ASSERT_TRUE(store.flush(5s));
    EXPECT_EQ(store.find("key_3"), "new");
  }
  EXPECT_EQ(files().size(), before + 1);
  EXPECT_TRUE(vesta::store::list(image, true).at(0).intact);
  // Of use even where the user's own folder is not.
  fs::permissions(own, fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(Store(own, vesta::store::kMostBytes, {image}).find("key_1"), "content");
}

TEST_F(StoreTest, FurtherFoldersAreNamedInTheEnvironment) {
  setenv("VESTA_CACHE_READ", "/a::/b c:", 1);
  EXPECT_EQ(vesta::store::further_folders(), (std::vector<fs::path>{"/a", "/b c"}));
  unsetenv("VESTA_CACHE_READ");
  EXPECT_TRUE(vesta::store::further_folders().empty());
}

TEST_F(StoreTest, AFileThatOthersMayWriteToIsNotRead) {
  Store store(folder_);
  store.put("key_1", "content");
  ASSERT_TRUE(store.flush(5s));
  fs::permissions(files().at(0), fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(store.find("key_1"), std::nullopt);
}

// Above its size the entries used the longest time ago go, and unfinished files of yesterday's processes.
TEST_F(StoreTest, OldEntriesMakeRoom) {
  Store(folder_).put("key_00", std::string(8000, 'x'));
  const auto long_ago = fs::file_time_type::clock::now() - 48h;
  const fs::path old = files().at(0), unfinished = old.parent_path() / "1.2.unfinished";
  std::ofstream(unfinished) << "x";
  fs::last_write_time(old, long_ago);
  fs::last_write_time(unfinished, long_ago);
  constexpr int64_t kRoom = 100 << 10;
  {
    Store store(folder_, kRoom);
    for (int i = 0; i < 12; ++i) store.put(fmt::format("new_{}", i), std::string(8000, 'y'));
  }
  // Another process trims when it writes first.
  Store later(folder_, kRoom);
  later.put("last", "z");
  ASSERT_TRUE(later.flush(5s));
  int64_t bytes = 0;
  for (const fs::path& f : files()) bytes += static_cast<int64_t>(fs::file_size(f));
  EXPECT_LE(bytes, kRoom);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_FALSE(fs::exists(unfinished));
  EXPECT_EQ(later.find("last"), "z");
}

// In a child: f. Its exit status.
template <class F>
pid_t in_child(F&& f) {
  const pid_t child = fork();
  if (child == 0) {
    f();
    _exit(0);
  }
  return child;
}

TEST_F(StoreTest, AFullDiskOnlyEndsWriting) {
  const pid_t child = in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit{5000, 5000};
    setrlimit(RLIMIT_FSIZE, &limit);
    Store store(folder_);
    store.put("key_1", std::string(100000, 'x'));  // does not fit
    store.put("key_2", "small");
    const bool written = store.flush(5s);
    _exit(written && !store.find("key_1") ? 0 : 1);
  });
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Store(folder_).find("key_1"), std::nullopt);
  for (const fs::path& f : files()) EXPECT_NE(f.extension(), ".unfinished") << f;
}

TEST_F(StoreTest, AReadOnlyFolderIsRead) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  Store(folder_).put("key_1", "content");
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  Store store(folder_);
  store.put("key_2", "content");
  EXPECT_TRUE(store.flush(5s));
  EXPECT_EQ(store.find("key_1"), "content");
}

// Eight at a time, each killed at a random point: no reader ever sees anything but a whole entry.
TEST_F(StoreTest, ProcessesThatAreKilledLeaveWholeEntries) {
  constexpr int kKeys = 64, kRounds = 25, kProcesses = 8;
  std::mt19937 random(7);
  Store reader(folder_);
  int found = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<pid_t> children;
    for (int p = 0; p < kProcesses; ++p) {
      const unsigned seed = random();
      children.push_back(in_child([&, seed] {
        std::mt19937 own(seed);
        Store store(folder_, 64 << 10);  // trims often
        for (;;) {
          const int i = static_cast<int>(own() % kKeys);
          if (const auto x = store.find(key_of(i)); x && *x != content_of(i)) _exit(1);
          store.put(key_of(i), content_of(i));
          store.flush(1s);
        }
      }));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 30));
    for (const pid_t child : children) kill(child, SIGKILL);
    for (const pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      EXPECT_TRUE(WIFSIGNALED(status)) << "a process read a wrong entry";
    }
    for (int i = 0; i < kKeys; ++i) {
      const auto x = reader.find(key_of(i));
      found += x.has_value();
      EXPECT_EQ(x.value_or(content_of(i)), content_of(i));
    }
  }
  EXPECT_GT(found, kRounds);
}

}  // namespace
