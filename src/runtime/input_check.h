// Whether a call's inputs are what an artifact was made for. No allocation when they are, but where a written input of
// a known size is in another place than in the call before.
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
  // Where the elements of each tensor begin; empty: nobody has looked yet. nullptr: it has none, or no memory yet.
  std::span<const void* const> addresses = {};
  const at::Tensor& tensor(size_t i) const { return i < arguments.size() ? arguments[i] : bound[i - arguments.size()]; }
  size_t tensor_count() const { return arguments.size() + bound.size(); }
};

class InputCheck {
 public:
  explicit InputCheck(const artifact::Artifact& artifact);
  ~InputCheck();

  // Fills `symbols` and `addresses` when true.
  bool accepts(const CallInputs& in, SymbolValues& symbols, Addresses& addresses) const;
  // The first fact that does not hold, with the expected and the found value; empty if all hold.
  std::string first_difference(const CallInputs& in) const;

  // The bytes a tensor can reach, from the first to behind the last.
  struct Reach;
  // Those that steps define are 0.
  void read_symbols(const CallInputs& in, SymbolValues& symbols) const;

 private:
  struct Tensor {
    uint64_t keys = 0;  // the dispatch keys that matter
    c10::ScalarType dtype = c10::ScalarType::Undefined;
    c10::Device device = c10::kCPU;
    int32_t dim = 0;
    int32_t first = 0;      // into expected_: dim sizes, then dim strides
    bool constant = true;   // no symbolic size or stride
    uint8_t alignment = 1;  // a power of two
    uint8_t item = 0;       // bytes of an element
  };
  bool facts_hold(const CallInputs& in, const Addresses& addresses) const;
  // Whether inputs that are written share no memory with others.
  bool mutated_apart(const CallInputs& in, const Addresses& addresses) const;
  // Where the written inputs are; nullptr if two of them overlap.
  struct Written;
  std::shared_ptr<const Written> written_apart(const CallInputs& in) const;

  const artifact::Artifact* artifact_;
  std::vector<Tensor> tensors_;
  std::vector<int64_t> expected_;  // constants; where program_[i] >= 0 the value of that Size
  std::vector<int32_t> program_;
  std::vector<artifact::Size> programs_;
  std::vector<int> group_;           // per input, the group of one tensor object it is in, or -1
  std::vector<bool> is_written_;     // per input, whether it or another of its group is
  std::vector<int> written_once_;    // inputs that are written, one of each group
  bool has_constant_types_ = false;  // no input has symbolic sizes or strides: where it begins says what it reaches
  // Of the last call that was accepted: an input that begins where it did then reaches no written one.
  mutable std::atomic<std::shared_ptr<const Written>> last_written_{nullptr};
  bool has_facts_ = false;
  int integers_ = 0;  // integer arguments expected
};

// Of every tensor of the call. Reads no element and throws nothing: whoever uses memory that is missing asks the
// tensor.
void read_addresses(const CallInputs& in, Addresses& addresses);

// Ask for the memory of what is looked at a little later: after others have used the caches, most of the time of a call
// is spent waiting for it. A storage is asked for when its tensor is there.
inline void prefetch_bytes(const void* begin, size_t bytes) {
  constexpr size_t kLine = 64;
  const auto* const at = static_cast<const char*>(begin);
  for (size_t i = 0; i < bytes; i += kLine) __builtin_prefetch(at + i);
  __builtin_prefetch(at + bytes - 1);  // it need not begin at a line
}
inline void prefetch_tensor(const at::Tensor& t) { prefetch_bytes(t.unsafeGetTensorImpl(), sizeof(c10::TensorImpl)); }
inline void prefetch_storage(const at::Tensor& t) {
  constexpr size_t kAddressEnds = 24;  // behind the counts of references
  prefetch_bytes(t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(), kAddressEnds);
}

// True if `t` is a plain tensor: strided, no wrapper; a conjugation or negation may be pending.
bool is_plain(const at::Tensor& t);

}  // namespace vesta::runtime
