// Checks that a call's inputs are what an artifact was made for. It allocates nothing when they are, except when a
// written input of a known size has moved since the last call.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "artifact/artifact.h"

namespace vesta::runtime {

using SymbolValues = c10::SmallVector<int64_t, 16>;
using Addresses = c10::SmallVector<const void*, 16>;

// A call's inputs: the caller's tensors, then tensors that the artifact's owner bound once (captured weights), then
// integers. Tensor input i of the artifact is arguments[i] or bound[i - arguments.size()].
struct CallInputs {
  std::span<const at::Tensor> arguments;
  std::span<const at::Tensor> bound;
  std::span<const int64_t> integers;
  // The address of each tensor's first element. Empty: the addresses have not been read. nullptr: the tensor has no
  // elements, or no memory yet.
  std::span<const void* const> addresses = {};
  // False: a run on a CPU that must pack more than a few weights first throws NotPacked (executable.h) instead.
  bool packs = true;
  const at::Tensor& tensor(size_t i) const { return i < arguments.size() ? arguments[i] : bound[i - arguments.size()]; }
  size_t tensor_count() const { return arguments.size() + bound.size(); }
};

class InputCheck {
 public:
  explicit InputCheck(const artifact::Artifact& artifact);
  ~InputCheck();

  // Fills `symbols` and `addresses` if the inputs are accepted.
  bool accepts(const CallInputs& in, SymbolValues& symbols, Addresses& addresses) const;
  // The first fact that fails, with the expected and the found value. Empty if all hold.
  std::string first_difference(const CallInputs& in) const;

  // Symbols that steps define are 0.
  void read_symbols(const CallInputs& in, SymbolValues& symbols) const;

 private:
  struct Tensor {
    uint64_t keys = 0;  // the dispatch keys that matter
    caffe2::TypeMeta type;
    c10::Device device = c10::kCPU;
    int32_t dim = 0;
    int32_t first = 0;      // index into expected_: first the sizes of its dimensions, then their strides
    bool constant = true;   // no size or stride is symbolic
    bool empty = false;     // one of its sizes is the constant 0
    uint8_t alignment = 1;  // a power of two
    uint8_t item = 0;       // bytes of an element
  };
  // Whether each tensor is what its `want` says, symbolic sizes and strides aside. Writes their addresses.
  bool types_hold(std::span<const at::Tensor> tensors, const Tensor* want, const void** addresses) const;
  bool facts_hold(const CallInputs& in, const Addresses& addresses) const;
  // Whether inputs that are written share no memory with other inputs.
  bool mutated_apart(const CallInputs& in, const Addresses& addresses) const;
  // The memory of the written inputs. nullptr if two of them overlap.
  struct Written;
  std::shared_ptr<const Written> written_apart(const CallInputs& in) const;

  const artifact::Artifact* artifact_;
  std::vector<Tensor> tensors_;
  std::vector<int64_t> expected_;  // constants; where program_[i] >= 0, the value of that Size instead
  std::vector<int32_t> program_;
  std::vector<artifact::Size> programs_;
  std::vector<int> group_;           // per input, its group of inputs that are one tensor object, or -1
  std::vector<bool> is_written_;     // per input, whether an input of its group is written
  std::vector<int> written_once_;    // the written inputs, one of each group
  bool has_constant_types_ = false;  // no input has symbolic sizes or strides: its address decides what it reaches
  // Of the last accepted call: an input at the same address as then reaches no written input.
  mutable std::atomic<std::shared_ptr<const Written>> last_written_{nullptr};
  bool has_facts_ = false;
  int integers_ = 0;  // count of integer arguments
};

// The memory of a tensor whose address has been read. A tensor without memory raises its own error.
inline void* memory_at(const CallInputs& in, size_t i) {
  return const_cast<void*>(in.addresses[i] ? in.addresses[i] : in.tensor(i).const_data_ptr());
}

// For every tensor of the call. It reads no element and throws nothing: code that uses missing memory asks the tensor.
void read_addresses(const CallInputs& in, Addresses& addresses);

// Prefetches memory that is read a little later. After other code has used the caches, most of the time of a call is
// spent waiting for it. A storage is prefetched when its tensor has arrived. GCC drops a call of a function that only
// prefetches, unless it has to inline it.
[[gnu::always_inline]] inline void prefetch_bytes(const void* begin, size_t bytes) {
  constexpr size_t kLine = 64;
  const auto* const at = static_cast<const char*>(begin);
  for (size_t i = 0; i < bytes; i += kLine) __builtin_prefetch(at + i);
  __builtin_prefetch(at + bytes - 1);  // it need not begin at the start of a cache line
}
[[gnu::always_inline]] inline void prefetch_tensor(const at::Tensor& t) {
  prefetch_bytes(t.unsafeGetTensorImpl(), sizeof(c10::TensorImpl));
}
[[gnu::always_inline]] inline void prefetch_storage(const at::Tensor& t) {
  constexpr size_t kAddressEnds = 24;  // after the reference counts
  prefetch_bytes(t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(), kAddressEnds);
}

// Whether `t` is a plain tensor: strided, not a wrapper. It may have pending conj and neg bits.
bool is_plain(const at::Tensor& t);

}  // namespace vesta::runtime
