#include "runtime/input_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "interop/torch_types.h"

namespace vesta::runtime {

namespace {

// Dispatch keys that do not change a run below autograd: autograd, autocast, version counting.
uint64_t ignored_keys() {
  static const uint64_t keys = [] {
    c10::DispatchKeySet set = c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;
    set = set | c10::DispatchKeySet(c10::DispatchKey::BackendSelect);
    // Backend bits stay, because they distinguish CPU from CUDA.
    return set.raw_repr() & ~((uint64_t{1} << c10::num_backends) - 1);
  }();
  return keys;
}

uint64_t conj_neg_keys(ConjNegBits conj_neg) {
  c10::DispatchKeySet set;
  if (conj_neg.conj) set = set.add(c10::DispatchKey::Conjugate);
  if (conj_neg.neg) set = set.add(c10::DispatchKey::Negative);
  return set.raw_repr();
}

uint64_t plain_keys(c10::Device device) {
  return c10::DispatchKeySet(c10::computeDispatchKey(c10::ScalarType::Float, c10::kStrided, device)).raw_repr();
}

bool holds(artifact::Relation relation, int64_t left, int64_t right) {
  switch (relation) {
    case artifact::Relation::Equal: return left == right;
    case artifact::Relation::NotEqual: return left != right;
    case artifact::Relation::Less: return left < right;
    case artifact::Relation::AtLeast: return left >= right;
  }
  return false;
}

// The address of a dense tensor's first element.
[[gnu::always_inline]] inline const void* address_of(const c10::TensorImpl* impl, size_t item, bool empty) {
  c10::StorageImpl* const storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (!storage || empty) return nullptr;
  const auto* const data = static_cast<const char*>(storage->_mutable_data_ptr_no_checks().get());
  return data ? data + static_cast<size_t>(impl->storage_offset()) * item : nullptr;
}

[[gnu::always_inline]] inline void prefetch(std::span<const at::Tensor> tensors, size_t i) {
  constexpr size_t kAhead = 12;
  if (i + 2 * kAhead < tensors.size()) prefetch_tensor(tensors[i + 2 * kAhead]);
  if (i + kAhead < tensors.size()) prefetch_storage(tensors[i + kAhead]);
}

bool is_aligned(const void* address, uint8_t alignment) {
  return (reinterpret_cast<uintptr_t>(address) & (alignment - 1U)) == 0;
}

}  // namespace

struct InputCheck::Written {
  std::vector<Bytes> reaches;  // of the inputs that are not empty, by address
  Addresses begins;            // per input: its address in the call for which this was computed
};

bool is_plain(const at::Tensor& t) {
  return t.defined() && t.layout() == c10::kStrided && !t.unsafeGetTensorImpl()->has_symbolic_sizes_strides() &&
         (t.key_set().raw_repr() & ~ignored_keys() & ~conj_neg_keys({true, true})) == plain_keys(t.device());
}

InputCheck::~InputCheck() = default;

InputCheck::InputCheck(const artifact::Artifact& artifact) : artifact_(&artifact) {
  tensors_.reserve(artifact.inputs.size());
  for (const artifact::InputDesc& input : artifact.inputs) {
    const c10::Device device = to_torch(input.type.device);
    const c10::ScalarType dtype = to_scalar_type(input.type.dtype);
    Tensor t{.keys = plain_keys(device),
             .type = c10::scalarTypeToTypeMeta(dtype),
             .device = device,
             .dim = static_cast<int32_t>(input.type.sizes.size()),
             .first = static_cast<int32_t>(expected_.size()),
             .alignment = static_cast<uint8_t>(input.alignment),
             .item = static_cast<uint8_t>(c10::elementSize(dtype))};
    for (const auto* list : {&input.type.sizes, &input.type.strides}) {
      VESTA_CHECK(list->size() == input.type.sizes.size(), "an input has {} sizes and {} strides",
                  input.type.sizes.size(), list->size());
      for (const artifact::Size& s : *list) {
        if (s.is_constant()) {
          expected_.push_back(s.steps[0].value);
          program_.push_back(-1);
        } else {
          t.constant = false;
          expected_.push_back(0);
          program_.push_back(static_cast<int32_t>(programs_.size()));
          programs_.push_back(s);
        }
      }
    }
    const auto is_zero = [](const artifact::Size& s) { return s.is_constant() && s.steps[0].value == 0; };
    t.empty = std::any_of(input.type.sizes.begin(), input.type.sizes.end(), is_zero);
    tensors_.push_back(t);
  }
  has_constant_types_ = std::all_of(tensors_.begin(), tensors_.end(), [](const Tensor& t) { return t.constant; });
  for (const auto& [input, conj_neg] : artifact.facts.conj_neg) tensors_[input].keys |= conj_neg_keys(conj_neg);
  group_.assign(artifact.inputs.size(), -1);
  for (size_t g = 0; g < artifact.facts.same.size(); ++g) {
    for (int i : artifact.facts.same[g]) group_[i] = static_cast<int>(g);
  }
  is_written_.assign(artifact.inputs.size(), false);
  for (int m : artifact.mutated) {
    if (is_written_[m]) continue;
    written_once_.push_back(m);
    is_written_[m] = true;
    for (size_t i = 0; i < group_.size() && group_[m] >= 0; ++i)
      if (group_[i] == group_[m]) is_written_[i] = true;
  }
  has_facts_ = !artifact.facts.same.empty() || !artifact.facts.offsets.empty() || !artifact.mutated.empty();
  for (const artifact::SymbolSource& s : artifact.symbols) {
    if (s.input == artifact::kArgument) integers_ = std::max(integers_, s.dim + 1);
  }
}

void read_addresses(const CallInputs& in, Addresses& addresses) {
  addresses.clear();
  for (size_t i = 0; i < in.tensor_count(); ++i) {
    const c10::TensorImpl* const impl = in.tensor(i).unsafeGetTensorImpl();
    addresses.push_back(address_of(impl, impl->dtype().itemsize(), impl->numel() == 0));
  }
}

bool InputCheck::facts_hold(const CallInputs& in, const Addresses& addresses) const {
  for (const std::vector<int>& group : artifact_->facts.same) {
    for (int i : group) {
      if (!in.tensor(i).is_same(in.tensor(group[0]))) return false;
    }
  }
  for (const auto& [input, offset] : artifact_->facts.offsets) {
    if (in.tensor(input).storage_offset() != offset) return false;
  }
  return artifact_->mutated.empty() || mutated_apart(in, addresses);
}

std::shared_ptr<const InputCheck::Written> InputCheck::written_apart(const CallInputs& in) const {
  auto found = std::make_shared<Written>();
  for (int m : written_once_)
    if (const Bytes r = vesta::bytes_of(in.tensor(m)); r.begin != r.end) found->reaches.push_back(r);
  std::sort(found->reaches.begin(), found->reaches.end(),
            [](const Bytes& a, const Bytes& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < found->reaches.size(); ++i)
    if (found->reaches[i].begin < found->reaches[i - 1].end) return nullptr;
  return found;
}

bool InputCheck::mutated_apart(const CallInputs& in, const Addresses& addresses) const {
  std::shared_ptr<const Written> last = has_constant_types_ ? last_written_.load() : nullptr;
  if (last && last->begins == addresses) return true;
  for (int m : written_once_)
    if (last && last->begins[static_cast<size_t>(m)] != addresses[static_cast<size_t>(m)]) last = nullptr;
  const std::shared_ptr<const Written> written = last ? last : written_apart(in);
  if (!written) return false;
  // The written tensors do not overlap each other, so the first one that ends after another tensor's start is the first
  // that can overlap it.
  const std::vector<Bytes>& reaches = written->reaches;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (is_written_[i] || (last && last->begins[i] == addresses[i])) continue;
    const Bytes r = vesta::bytes_of(in.tensor(i));
    const auto next = std::upper_bound(reaches.begin(), reaches.end(), r.begin,
                                       [](const char* p, const Bytes& w) { return p < w.end; });
    if (r.begin != r.end && next != reaches.end() && next->begin < r.end) return false;
  }
  if (!last && has_constant_types_) {
    auto kept = std::make_shared<Written>(*written);
    kept->begins = addresses;
    last_written_.store(std::move(kept));
  }
  return true;
}

void InputCheck::read_symbols(const CallInputs& in, SymbolValues& symbols) const {
  symbols.resize(artifact_->symbols.size());
  for (size_t i = 0; i < symbols.size(); ++i) {
    const artifact::SymbolSource& s = artifact_->symbols[i];
    if (s.input < 0) {
      symbols[i] = s.input == artifact::kArgument ? in.integers[s.dim] : 0;
    } else {
      const at::Tensor& t = in.tensor(s.input);
      symbols[i] = s.stride ? t.strides()[s.dim] : t.sizes()[s.dim];
    }
  }
}

// Flattened: most accessors of TensorImpl are too large for GCC to inline them by itself, and a call's inputs may be
// hundreds of tensors.
[[gnu::flatten]] bool InputCheck::types_hold(std::span<const at::Tensor> tensors, const Tensor* want,
                                             const void** addresses) const {
  const uint64_t keys = ~ignored_keys();
  const int64_t* const constants = expected_.data();
  for (size_t i = 0; i < tensors.size(); ++i, ++want) {
    prefetch(tensors, i);
    const c10::TensorImpl* const impl = tensors[i].unsafeGetTensorImpl();
    // An undefined tensor has other dispatch keys.
    if ((impl->key_set().raw_repr() & keys) != want->keys || impl->dtype() != want->type ||
        impl->device() != want->device || impl->has_symbolic_sizes_strides())
      return false;
    const c10::IntArrayRef sizes = impl->sizes();
    if (sizes.size() != static_cast<size_t>(want->dim)) return false;
    bool empty = want->empty;
    if (want->constant) {
      const int64_t* const strides = impl->strides().data();
      const int64_t *const expected = constants + want->first, *const expected_strides = expected + want->dim;
      for (int32_t d = 0; d < want->dim; ++d)
        if (sizes[d] != expected[d] || strides[d] != expected_strides[d]) return false;
    } else {
      empty = impl->numel() == 0;
    }
    addresses[i] = address_of(impl, want->item, empty);
    if (!is_aligned(addresses[i], want->alignment)) return false;
  }
  return true;
}

bool InputCheck::accepts(const CallInputs& in, SymbolValues& symbols, Addresses& addresses) const {
  const size_t count = tensors_.size();
  if (in.tensor_count() != count || in.integers.size() < static_cast<size_t>(integers_)) return false;
  addresses.resize_for_overwrite(count);
  if (!types_hold(in.arguments, tensors_.data(), addresses.data())) return false;
  const size_t bound = in.arguments.size();
  if (!types_hold(in.bound, tensors_.data() + bound, addresses.data() + bound)) return false;
  if (has_facts_ && !facts_hold(in, addresses)) return false;
  if (artifact_->is_static) return true;
  read_symbols(in, symbols);
  for (size_t i = 0; i < count; ++i) {
    const Tensor& want = tensors_[i];
    if (want.constant) continue;
    const c10::TensorImpl* impl = in.tensor(i).unsafeGetTensorImpl();
    const int64_t* sizes = impl->sizes().data();
    const int64_t* strides = impl->strides().data();
    for (int32_t d = 0; d < 2 * want.dim; ++d) {
      const int32_t p = program_[want.first + d];
      const int64_t expected = p < 0 ? expected_[want.first + d] : programs_[p].run(symbols);
      if ((d < want.dim ? sizes[d] : strides[d - want.dim]) != expected) return false;
    }
  }
  for (const artifact::Guard& g : artifact_->guards) {
    if (!holds(g.relation, g.left.run(symbols), g.right.run(symbols))) return false;
  }
  return true;
}

std::string InputCheck::first_difference(const CallInputs& in) const {
  if (in.tensor_count() != tensors_.size()) {
    return fmt::format("{} tensors instead of {}", in.tensor_count(), tensors_.size());
  }
  if (in.integers.size() < static_cast<size_t>(integers_)) {
    return fmt::format("{} integers instead of {}", in.integers.size(), integers_);
  }
  Addresses addresses;
  read_addresses(in, addresses);
  auto label = [&](size_t i) {
    const std::string& name = artifact_->inputs[i].name;
    return name.empty() ? fmt::format("input {}", i) : fmt::format("input {} ({})", i, name);
  };
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& want = tensors_[i];
    const at::Tensor& t = in.tensor(i);
    if (!t.defined()) return label(i) + " is undefined";
    if (t.device() != want.device) {
      return fmt::format("{}: device {} instead of {}", label(i), t.device().str(), want.device.str());
    }
    if (t.dtype() != want.type) {
      return fmt::format("{}: dtype {} instead of {}", label(i), c10::toString(t.scalar_type()),
                         c10::toString(c10::typeMetaToScalarType(want.type)));
    }
    if (!is_plain(t)) return label(i) + " is not a plain strided tensor";
    if (conj_neg_keys(conj_neg_of(*t.unsafeGetTensorImpl())) != (want.keys & conj_neg_keys({true, true}))) {
      return fmt::format("{}: is_conj() is {} and is_neg() is {}", label(i), t.is_conj(), t.is_neg());
    }
    if (t.dim() != want.dim) return fmt::format("{}: {} dimensions instead of {}", label(i), t.dim(), want.dim);
    if (!is_aligned(addresses[i], want.alignment))
      return fmt::format("{}: its memory begins at no multiple of {} bytes", label(i), want.alignment);
  }
  SymbolValues symbols;
  read_symbols(in, symbols);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& want = tensors_[i];
    const at::Tensor& t = in.tensor(i);
    for (int32_t d = 0; d < 2 * want.dim; ++d) {
      const int32_t p = program_[want.first + d];
      const int64_t expected = p < 0 ? expected_[want.first + d] : programs_[p].run(symbols);
      const bool is_size = d < want.dim;
      const int64_t found = is_size ? t.size(d) : t.stride(d - want.dim);
      if (found != expected) {
        return fmt::format("{}: {} {} is {} instead of {}", label(i), is_size ? "size" : "stride",
                           is_size ? d : d - want.dim, found, expected);
      }
    }
  }
  for (const artifact::Guard& g : artifact_->guards) {
    const int64_t left = g.left.run(symbols), right = g.right.run(symbols);
    if (!holds(g.relation, left, right)) return fmt::format("{} does not hold ({} and {})", g.text, left, right);
  }
  if (has_facts_ && !facts_hold(in, addresses))
    return "inputs are the same tensor, share memory, or begin at another offset of their storage";
  return {};
}

}  // namespace vesta::runtime
