// The file of a saved program (by convention *.vesta): a header, the bytes of the program, and the weights. Each
// storage starts at a multiple of 64 bytes, so that mapped weights are used where they lie.
//
//   0   "VESTAPRG"
//   8   kFormat, 4 bytes; 4 bytes 0
//   16  size of the program in bytes; 24  start of the weights, a multiple of 4096; 32  size of the file in bytes
//   40  digest (XXH3, 128 bits) of all of the above and of the program's bytes
//   64  the program's bytes; then zeros; then the weights
//
// All numbers are little-endian. The digest covers code, launches and extents and is always compared. Weights have
// digests of their own, which only check_weights() compares.
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

// A file mapped into memory. The mapping is private: writes to it change no file. As with every mapped file, a file
// that is truncated while it is mapped ends the process with SIGBUS when the missing part is read; replace files by
// rename.
class Mapping {
 public:
  explicit Mapping(const std::filesystem::path& path);  // throws UserError
  ~Mapping();
  Mapping& operator=(Mapping&&) = delete;  // neither copied nor moved
  std::string_view bytes() const { return {data_, size_}; }
  char* data() { return data_; }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
};

struct Opened {
  Program program;
  std::shared_ptr<Mapping> mapping;
  // The memory of a storage that is in the file.
  char* memory(const Storage& s) const { return mapping->data() + weights_at + static_cast<size_t>(s.at); }
  size_t weights_at = 0;
};

// Throws UserError with the path and what is wrong: missing, not a saved program, another version, damaged.
Opened open(const std::filesystem::path& path);
// The same for bytes that are already in memory. Errors have no path.
Program read(std::string_view file, size_t* weights_at = nullptr);

// The indices of the storages whose digest differs from the file's.
std::vector<int> check_weights(const Opened& file);

// Gives the bytes of one storage, in the CPU's memory.
using Memory = std::function<std::shared_ptr<const char>()>;

// Writes a file beside `path` and renames it. `memory` has an entry per storage, empty for storages that stay outside
// the file. Each entry is called once, and its bytes are released before the next is called. Sets `at` and `digest` of
// the storages. Returns the size of the file. Throws UserError, and whatever `memory` throws.
int64_t save(Program program, std::span<const Memory> memory, const std::filesystem::path& path);

}  // namespace vesta::program
