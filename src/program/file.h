// The file of a saved program (by convention *.vesta): a header, the bytes of the program, and the weights, each
// storage on 64 bytes, so that they are mapped into memory as they lie.
//
//   0   "VESTAPRG"
//   8   kFormat, 4 bytes; 4 bytes 0
//   16  bytes of the program; 24  where the weights begin, a multiple of 4096; 32  bytes of the file
//   40  digest (XXH3, 128 bits) of all of the above and of the program's bytes
//   64  the program's bytes; then zeros; then the weights
//
// All numbers are little-endian. The digest covers code, launches and extents; weights have digests of their own,
// which are compared when somebody asks (check_weights()).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "program/program.h"

namespace vesta::program {

constexpr uint32_t kFormat = 4;

// A file in memory. Private: who writes there changes no file. A file that is cut short while it is mapped ends the
// process with SIGBUS when the missing part is read, as with every mapped file; replace files by rename.
class Mapping {
 public:
  explicit Mapping(const std::filesystem::path& path);  // throws UserError
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::string_view bytes() const { return {data_, size_}; }
  char* data() { return data_; }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
};

struct Opened {
  Program program;
  std::shared_ptr<Mapping> mapping;
  // Memory of a storage that is in the file.
  char* memory(const Storage& s) const;
  size_t weights_at = 0;
};

// Throws UserError naming the path and what is wrong: not there, no saved program, of another version, damaged.
Opened open(const std::filesystem::path& path);
// The same of bytes that are in memory already, without the path.
Program read(std::string_view file, size_t* weights_at = nullptr);

// Storages with a digest other than the file's, by number.
std::vector<int> check_weights(const Opened& file);

// Gives the bytes of one storage, in the CPU's memory.
using Memory = std::function<std::shared_ptr<const char>()>;

// Writes a file beside `path` and renames it. `memory`: of each storage; empty for those that stay outside. Each is
// called once, and what it gives is let go before the next is called. Fills `at` and `digest` of the storages. Returns
// the bytes of the file. Throws UserError, and what `memory` throws.
int64_t save(Program program, std::span<const Memory> memory, const std::filesystem::path& path);

}  // namespace vesta::program
