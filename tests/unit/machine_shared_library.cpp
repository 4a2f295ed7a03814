// Libraries are found, and told apart, without loading them.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "machine/cuda/shared_library.h"

namespace vesta::machine {
namespace {

// A folder in $LD_LIBRARY_PATH, and a variable of the environment, for one test.
class Folder {
 public:
  Folder() : before_(std::getenv("LD_LIBRARY_PATH") ? std::getenv("LD_LIBRARY_PATH") : "") {
    char name[] = "/tmp/vesta-libraries-XXXXXX";
    path = mkdtemp(name);
    setenv("LD_LIBRARY_PATH", ("/nowhere:" + path).c_str(), 1);
  }
  ~Folder() {
    setenv("LD_LIBRARY_PATH", before_.c_str(), 1);
    unsetenv("VESTA_TEST_LIBRARY");
    std::filesystem::remove_all(path);
  }
  std::string put(const std::string& name, const std::string& content) const {
    std::ofstream(path + "/" + name, std::ios::binary) << content;
    return path + "/" + name;
  }
  std::string path;

 private:
  std::string before_;
};

// The C library has a build ID.
std::string known_file() {
  void* const library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  EXPECT_NE(library, nullptr);
  const std::string file = file_of(library);
  dlclose(library);
  return file;
}

TEST(SharedLibrary, FilesInTheirOrder) {
  const Folder folder;
  const std::string second = folder.put("libvesta_absent.so.2", "no library"),
                    first = folder.put("libvesta_absent.so.3", "no library");
  const char* const names[] = {"libvesta_absent.so.3", "libvesta_absent.so.2", "libvesta_absent.so"};
  EXPECT_EQ(library_files({names}), (std::vector<std::string>{first, second}));
  const char* const beside[] = {folder.path.c_str()};
  EXPECT_EQ(library_files({names, beside}), (std::vector<std::string>{first, first, second, second}));
  std::string why;
  EXPECT_EQ(open_library({names}, &why), nullptr);
  EXPECT_EQ(why, "there is no libvesta_absent.so.3, libvesta_absent.so.2, libvesta_absent.so");
}

TEST(SharedLibrary, TheVariableDecidesAlone) {
  const Folder folder;
  const char* const names[] = {"libc.so.6"};
  const LibrarySearch search{.names = names, .variable = "VESTA_TEST_LIBRARY"};
  EXPECT_EQ(library_files(search), std::vector<std::string>{known_file()});
  setenv("VESTA_TEST_LIBRARY", "", 1);
  std::string why;
  EXPECT_TRUE(library_files(search).empty());
  EXPECT_EQ(open_library(search, &why), nullptr);
  EXPECT_EQ(why, "VESTA_TEST_LIBRARY is \"\"");
  setenv("VESTA_TEST_LIBRARY", "/nowhere/lib.so", 1);
  EXPECT_EQ(library_files(search), std::vector<std::string>{"/nowhere/lib.so"});
  EXPECT_EQ(open_library(search, &why), nullptr);
  EXPECT_EQ(why, "VESTA_TEST_LIBRARY is \"/nowhere/lib.so\"");
}

TEST(SharedLibrary, BuildIds) {
  const Folder folder;
  const std::string id = build_id(known_file());
  EXPECT_EQ(id.size(), 40u);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(build_id("/nowhere"), "");
  EXPECT_EQ(build_id(folder.put("text", "no library")), "");
  EXPECT_EQ(build_id(folder.put("empty", "")), "");
  // Cut off anywhere, or with other bytes in its head: an ID or none.
  std::ifstream in(known_file(), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(build_id(folder.put("whole", whole)), id);
  for (size_t n = 0; n < 1200; n += 7) {
    const std::string found = build_id(folder.put("part", whole.substr(0, n)));
    EXPECT_TRUE(found.empty() || found == id) << n;
    std::string wrong = whole.substr(0, 4096);
    wrong[n] = static_cast<char>(wrong[n] ^ 0xff);
    build_id(folder.put("wrong", wrong));
  }
}

}  // namespace
}  // namespace vesta::machine
