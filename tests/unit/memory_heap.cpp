#include "memory_heap.h"

#include <malloc.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace {

constexpr int64_t kHeader = 16;  // glibc's, for each block
thread_local int64_t held = 0, most = 0;

void* taken(void* p) {
  if (p) most = std::max(most, held += static_cast<int64_t>(malloc_usable_size(p)) + kHeader);
  return p;
}
void* given_back(void* p) {
  if (p) held -= static_cast<int64_t>(malloc_usable_size(p)) + kHeader;
  return p;
}

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr bool kIsMeasured = true;
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);

void* malloc(size_t n) { return taken(__libc_malloc(n)); }
void* calloc(size_t n, size_t each) { return taken(__libc_calloc(n, each)); }
void* realloc(void* p, size_t n) { return taken(__libc_realloc(given_back(p), n)); }
void* memalign(size_t alignment, size_t n) { return taken(__libc_memalign(alignment, n)); }
void* aligned_alloc(size_t alignment, size_t n) { return memalign(alignment, n); }
int posix_memalign(void** out, size_t alignment, size_t n) {
  *out = memalign(alignment, n);
  return *out ? 0 : ENOMEM;
}
void free(void* p) { __libc_free(given_back(p)); }
}
#else
constexpr bool kIsMeasured = false;
#endif

namespace vesta::testing {

bool heap_is_measured() { return kIsMeasured; }

Heap::Heap() : before_(held) { most = held; }
int64_t Heap::peak() const { return most - before_; }
int64_t Heap::now() const { return held - before_; }

}  // namespace vesta::testing
