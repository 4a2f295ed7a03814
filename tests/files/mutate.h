// Changes of a saved program's data, drawn at random.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "program/program.h"

namespace vesta::files {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  // 0 .. n-1, 0 where n is 0.
  size_t below(size_t n) { return n == 0 ? 0 : engine_() % n; }
  bool one_in(size_t n) { return below(n) == 0; }
  // A number near `old`, near 0, near `count` of something, or near the ends of a type.
  int64_t number(int64_t old, int64_t count);
  template <class T>
  T& of(std::vector<T>& v) {
    return v[below(v.size())];
  }

 private:
  std::mt19937_64 engine_;
};

// Changes one to three fields: whatever a file says besides what only the compiler can know to be true together with
// its code. That is kernels, launches and the order in which they run, guards, and sizes of buffers (artifact/bytes.h).
// Returns what was changed.
std::string mutate(program::Program& p, Random& random);

// The same of an artifact alone.
std::string mutate(artifact::Artifact& a, Random& random);

}  // namespace vesta::files
