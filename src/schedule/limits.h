// What the plan takes for worth its while on each kind of device: a row a device (limits.cpp). Sizes of caches and
// speeds of memory are the target's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/type.h"

namespace vesta::schedule {

struct Limits {
  DeviceType device = DeviceType::CPU;

  // Inlining. Costs are of one element, in multiplies.
  int cheap;        // a value of at most this cost may be computed again by every kernel that reads it
  int inline_cost;  // a chain of inlined values ends here, so that no kernel grows without bound

  // Fusion into one kernel
  int distance;             // nodes between two groups: a longer one would hold operands or results too long
  size_t nodes;             // operators of a kernel
  int group_cost;           // of one element
  size_t instructions;      // of a kernel's code
  size_t pieces;            // of a concatenation that is made by kernels, one each
  int64_t shared_elements;  // groups that only read the same value become one kernel from this many elements on
  int64_t few_elements;     // a factory of at most this many alone is ATen's
  int64_t many_elements;    // rows that are stretched to at least this many, and nothing else, are ATen's
  bool adds_atomically;     // elements are added to shared places in any order (loops::StoreAdd)
  bool asserts_places;      // places that index tensors name are checked by the kernels that use them, not before

  // Reductions, and index checks, that are made in two kernels: chunks first, then all of them together
  int64_t split_elements;  // from this many elements on
  int64_t chunks;          // at most
  int64_t enough_chunks;   // for a check: with fewer another dimension is cut
  int64_t chunk_elements;  // at least
  int64_t whole_column;    // but not columns, whose neighbours lie side by side, of at most this many
};

// A device without a row of its own has the CPU's: no kernels are made for it.
const Limits& limits_of(DeviceType device);

}  // namespace vesta::schedule
