// One folder per compile: graphs, plan, artifact, and what the code generator writes beside them.
#pragma once

#include <string>
#include <string_view>

#include "vesta/options.h"

namespace vesta::pipeline {

class Dump {
 public:
  // The folder is named by Options::dump_dir or $VESTA_DUMP; no folder, no dump. A folder that cannot be made is warned
  // of once.
  explicit Dump(const Options& options);
  bool active() const { return !folder_.empty(); }
  const std::string& folder() const { return folder_; }
  void write(std::string_view name, std::string_view text);
  // "03_cse_after.txt": numbered in the order of calls.
  void write_numbered(std::string_view name, std::string_view text);

 private:
  std::string folder_;
  int next_ = 0;
};

}  // namespace vesta::pipeline
