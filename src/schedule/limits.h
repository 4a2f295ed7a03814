// Thresholds by which the plan decides what pays on each kind of device: a row for each device (limits.cpp). Sizes of
// caches and speeds of memory are in the target.
#pragma once

#include <cstddef>

#include "base/type.h"

namespace vesta::schedule {

struct Limits {
  DeviceType device = DeviceType::CPU;

  // Inlining. Costs are of one element, in multiplies.
  int cheap;         // a value of at most this cost may be computed again by every kernel that reads it
  int64_t repeated;  // a value that is broadcast to at least this many elements is computed once, in an earlier kernel
  bool hoists;       // loops compute once what does not change along the innermost one
  int inline_cost;   // a chain of inlined values ends here, so that no kernel grows without bound

  // Fusion into one kernel
  int distance;         // nodes between two groups; a longer one would keep operands or results alive too long
  size_t nodes;         // operators of a kernel
  int group_cost;       // of one element
  int products;         // matrix products
  size_t instructions;  // of a kernel's code
  size_t pieces;        // of a result that kernels make piece by piece, one kernel each
  // Kernels of products and reductions store pieces of a result. For a tensor with a border, other kernels make the
  // border.
  bool stores_pieces;
  int64_t shared_elements;  // groups that only read the same value become one kernel from this many elements on
  int64_t few_elements;     // a factory of at most this many elements stays an ATen call if it is alone
  int64_t many_elements;    // an interpolation to at least this many elements stays an ATen call if it is alone
  bool launch_counts;       // a kernel of few elements takes as long as its launch
  bool adds_atomically;     // additions to shared elements run in any order (loops::StoreAdd)
  bool asserts_places;  // kernels check the indices of index tensors that they use; otherwise a kernel before them does

  // Reductions and index checks that two kernels compute: first chunks, then all chunks together
  int64_t split_elements;  // from this many elements on
  int64_t chunks;          // at most
  int64_t enough_chunks;   // for a check: with fewer chunks another dimension is split
  int64_t chunk_elements;  // at least
  int64_t row_elements;    // rows of fewer elements are not split
  int64_t shared_row;      // the same where neighbouring blocks of threads share a row
  int64_t many_rows;       // rows whose elements are apart are split below this many, from apart_elements on
  int64_t apart_elements;
  int64_t
      whole_column;  // columns, whose neighbours are adjacent in memory, of at most this many elements are not split
};

// A device without a row has the CPU's row; no kernels are made for it.
const Limits& limits_of(DeviceType device);

}  // namespace vesta::schedule
