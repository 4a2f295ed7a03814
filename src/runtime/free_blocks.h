// Decides which freed blocks of memory are kept for the next outputs, and how many.
//
// Up to kKept bytes are always kept. More are kept where this turns out to save page faults: where a block was freed
// because there were too many, and one of its size was allocated soon after it, as in each step of a training loop.
// Even then, the bytes in use and the kept bytes together exceed the most that was in use at once, in this period and
// the one before it, by at most kKept. At the end of a period, kept bytes that none of its allocations needed are
// freed.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <unordered_map>
#include <vector>

namespace vesta::runtime {

class FreeBlocks {
 public:
  static constexpr size_t kKept = size_t{256} << 20;
  static constexpr int kPeriod = 4096;  // allocations

  struct Block {
    void* memory;
    size_t bytes;
  };

  // A kept block of at least n bytes that wastes at most a 64th and a page, the most recently freed one of its size. It
  // is in use now. nullptr: there is none.
  void* take(size_t n);
  // Notes the use of a block that the caller is about to allocate, because take() found none.
  void note_new(size_t bytes);
  void forget(size_t bytes) { in_use_ -= bytes; }  // it could not be allocated
  void give_back(Block block);

  // The blocks that are to be freed now: the least recently freed ones.
  std::vector<void*> drop();
  // Returns the kept blocks beyond kKept, each of them once after it was given back. The caller tells the operating
  // system that it may take their pages where memory is short (madvise(2), MADV_FREE).
  std::vector<Block> spare();
  std::vector<void*> drop_all();

  size_t bytes() const { return bytes_; }  // of all kept blocks
  size_t in_use() const { return in_use_; }

 private:
  struct Kept : Block {
    bool is_spare = false;
  };
  using List = std::list<Kept>;

  size_t most() const;  // bytes that may be kept now
  void use(size_t bytes);
  void end_period();
  void remove(List::iterator block);

  List recent_, spare_;                                // most recently freed first; those in spare_ were freed before
  std::multimap<size_t, List::iterator> by_size_;      // of both lists
  std::unordered_map<size_t, size_t> lately_dropped_;  // in this period: how many blocks of this size
  size_t bytes_ = 0, recent_bytes_ = 0, in_use_ = 0;
  size_t more_ = 0;                    // bytes that are kept beyond kKept
  size_t peak_ = 0, peak_before_ = 0;  // the most in use: in this period, and in the one before it
  size_t least_ = 0;                   // the lowest value of bytes_ in this period
  int allocations_ = 0;                // in this period
};

}  // namespace vesta::runtime
