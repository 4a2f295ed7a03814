// Measures the heap of the calling thread: test_memory replaces malloc by functions that count.
#pragma once

#include <cstdint>

namespace vesta::testing {

// False under a sanitizer, which replaces malloc itself.
bool heap_is_measured();

// Of the calling thread, since this object was made.
class Heap {
 public:
  Heap();
  int64_t peak() const;  // the most that was allocated at once, in bytes
  int64_t now() const;   // what is allocated and was not before

 private:
  int64_t before_;
};

}  // namespace vesta::testing
