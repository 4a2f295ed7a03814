// Entries in a folder: found, damaged, old, refused where others may write.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <map>
#include <random>

#include "store/entry.h"
#include "store/store.h"
#include "store_folder.h"

namespace {

namespace fs = std::filesystem;
using vesta::store::Store;
using vesta::testing::StoreTest;
using namespace std::chrono_literals;

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

TEST_F(StoreTest, AnEntryIsFoundBeforeItIsWritten) {
  Store store(folder_);
  for (int i = 0; i < 50; ++i) {
    store.put(fmt::format("key_{}", i), std::string(1 << 20, 'x'));
    store.put("same", fmt::format("{}", i));
    EXPECT_EQ(store.find(fmt::format("key_{}", i)), std::string(1 << 20, 'x'));
    EXPECT_EQ(store.find("same"), fmt::format("{}", i));
  }
  EXPECT_TRUE(store.flush(30s));
  EXPECT_EQ(store.find("same"), "49");
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
  // Further folders are used even if the user's own folder cannot be.
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

fs::path file_of(const fs::path& folder, const std::string& key) {
  return folder / key.substr(key.size() - 2) / key.substr(0, key.size() - 2);
}

void set_time(const fs::path& path, time_t seconds) {
  const timespec times[2] = {{seconds, 0}, {seconds, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

// A clock that was wrong, or is set back, costs no more than entries: what is of now is kept before what is from a time
// that is still to come, and a use puts such a time right.
TEST_F(StoreTest, ClocksThatJump) {
  const time_t now = time(nullptr);
  const std::map<std::string, time_t> times = {
      {"new_01", now},         {"new_02", now - 3600},
      {"soon_1", now + 86400}, {"far_01", now + (int64_t{1} << 33)},  // its nanoseconds overflow
      {"never1", 0},           {"before", -86400}};
  {
    Store store(folder_);
    for (const auto& [key, used] : times) store.put(key, std::string(8000, key[0]));
  }
  for (const auto& [key, used] : times) set_time(file_of(folder_, key), used);
  const auto keys = [&] {
    std::vector<std::string> out;
    for (const auto& e : vesta::store::list(folder_, true)) {
      EXPECT_TRUE(e.intact) << e.key;
      out.push_back(e.key);
    }
    return out;
  };
  ASSERT_EQ(keys().size(), times.size());
  EXPECT_EQ(keys()[0], "new_01");
  EXPECT_EQ(keys()[1], "new_02");
  // A store that may hold a third keeps what is new, and finds it.
  constexpr int64_t kRoom = 40 << 10;
  {
    Store store(folder_, kRoom);
    EXPECT_EQ(store.find("soon_1"), std::string(8000, 's'));  // used now
    store.put("new_03", std::string(8000, 'n'));
    ASSERT_TRUE(store.flush(5s));
    for (const char* key : {"new_01", "new_03", "soon_1"}) EXPECT_TRUE(store.find(key)) << key;
    for (const char* key : {"far_01", "never1", "before"}) EXPECT_FALSE(store.find(key)) << key;
  }
  EXPECT_LE(std::abs(vesta::store::list(folder_, false)[0].used - now), 3600);
  // Files of a killed process are deleted, whatever their time.
  for (const time_t used : {now - 2 * 86400, now + 2 * 86400, time_t{0}}) {
    const fs::path unfinished = file_of(folder_, "new_01").parent_path() / "1.2.unfinished";
    std::ofstream(unfinished) << "x";
    set_time(unfinished, used);
    vesta::store::trim(folder_, kRoom);
    EXPECT_FALSE(fs::exists(unfinished)) << used;
  }
  // One that is being written stays.
  const fs::path written = file_of(folder_, "new_01").parent_path() / "1.3.unfinished";
  std::ofstream(written) << "x";
  vesta::store::trim(folder_, kRoom);
  EXPECT_TRUE(fs::exists(written));
}

}  // namespace
