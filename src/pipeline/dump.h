// One folder per compile with its graphs, plan, artifact, and the code generator's files. A failure to write is a
// warning, never an error.
#pragma once

#include <string_view>

#include "vesta/options.h"

namespace vesta::pipeline {

class Dump {
 public:
  // The folder is made in Options::dump_dir or $VESTA_DUMP. If neither is set, nothing is dumped. A folder that cannot
  // be made is a warning, given once.
  explicit Dump(const Options& options);
  bool active() const { return !folder_.empty(); }
  const std::string& folder() const { return folder_; }
  void write(std::string_view name, std::string_view text);
  // Writes "03_cse_after.txt"; files are numbered in the order of calls.
  void write_numbered(std::string_view name, std::string_view text);

 private:
  std::string folder_;
  int next_ = 0;
};

}  // namespace vesta::pipeline
