// Processes that share a folder: they race, they are killed, the disk is full, the folder is read-only.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "store/store.h"
#include "store_folder.h"

namespace {

namespace fs = std::filesystem;
using vesta::store::Store;
using vesta::testing::StoreTest;
using namespace std::chrono_literals;

std::string content_of(int i) {
  return std::string(static_cast<size_t>(100 + i % 5000), static_cast<char>('a' + i % 26));
}
std::string key_of(int i) { return fmt::format("key_{:08x}", i * 2654435761U); }

int exit_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
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
  Store(folder_).put("key_1", "content");
  // Root may write everywhere: another user does it then, to whom everything belongs.
  constexpr uid_t kNobody = 65534;
  if (geteuid() == 0) {
    for (const auto& e : fs::recursive_directory_iterator(folder_))
      ASSERT_EQ(chown(e.path().c_str(), kNobody, kNobody), 0);
    ASSERT_EQ(chown(folder_.c_str(), kNobody, kNobody), 0);
  }
  for (const auto& e : fs::directory_iterator(folder_))
    fs::permissions(e, fs::perms::owner_read | fs::perms::owner_exec);
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(exit_of(in_child([&] {
              if (geteuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) _exit(2);
              Store store(folder_);
              store.put("key_2", "content");
              if (!store.flush(5s) || store.find("key_1") != "content" || store.find("key_2")) _exit(1);
              _exit(0);
            })),
            0);
  for (const auto& e : fs::directory_iterator(folder_)) fs::permissions(e, fs::perms::owner_all);
}

// Nobody is killed and there is room: what each has written is there for all, and nothing else.
TEST_F(StoreTest, ProcessesThatRaceLoseNothing) {
  constexpr int kKeys = 100, kProcesses = 8;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p)
    children.push_back(in_child([&, p] {
      std::mt19937 own(static_cast<unsigned>(p));
      Store store(folder_);
      for (int step = 0; step < 3 * kKeys; ++step) {
        const int i = step < kKeys ? step : static_cast<int>(own() % kKeys);
        if (const auto x = store.find(key_of(i)); x && *x != content_of(i)) _exit(1);
        store.put(key_of(i), content_of(i));
        if (step % 16 == p) store.flush(5s);
      }
      if (!store.flush(20s)) _exit(2);
      for (int i = 0; i < kKeys; ++i)
        if (store.find(key_of(i)) != content_of(i)) _exit(3);
    }));
  for (const pid_t child : children) EXPECT_EQ(exit_of(child), 0);
  EXPECT_EQ(files().size(), static_cast<size_t>(kKeys));
  for (const auto& e : vesta::store::list(folder_, true)) EXPECT_TRUE(e.intact) << e.key;
}

// Eight at a time, each killed at a random point: no reader ever sees anything but a whole entry.
TEST_F(StoreTest, ProcessesThatAreKilledLeaveWholeEntries) {
  constexpr int kKeys = 64, kRounds = 125, kProcesses = 8;  // 1000 kills
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
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
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
