// A folder for a store that goes with the test.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "remove_folder.h"

namespace vesta::testing {

class StoreTest : public ::testing::Test {
 protected:
  StoreTest()
      : folder_(std::filesystem::temp_directory_path() / fmt::format("vesta_store_{}_{}", getpid(), count_++)) {}
  ~StoreTest() override {
    std::error_code error;
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all, error);
    remove_folder(folder_);
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    for (const auto& e : std::filesystem::recursive_directory_iterator(folder_))
      if (e.is_regular_file()) found.push_back(e.path());
    return found;
  }
  const std::filesystem::path folder_;

 private:
  static inline int count_ = 0;
};

}  // namespace vesta::testing
