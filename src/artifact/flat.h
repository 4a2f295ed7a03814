// Helpers to read and write FlatBuffers tables. A missing vector or text reads as an empty one; a value out of range is
// an InternalError.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

#include "artifact/require.h"

namespace vesta::artifact::flat {

// FlatBuffers' verifier checks where a vector begins, and not that its elements are aligned.
template <class T>
const flatbuffers::Vector<T>& all(const flatbuffers::Vector<T>* v) {
  static const uint32_t none = 0;
  if (!v || v->size() == 0) return *reinterpret_cast<const flatbuffers::Vector<T>*>(&none);
  constexpr size_t kAlignment = alignof(std::remove_pointer_t<T>);  // structs are elements of a pointer type
  VESTA_REQUIRE(reinterpret_cast<uintptr_t>(v->Data()) % kAlignment == 0, "elements that are not aligned");
  return *v;
}

inline std::string text(const flatbuffers::String* s) { return s ? s->str() : std::string(); }

template <class T>
std::vector<T> numbers(const flatbuffers::Vector<T>* v) {
  return {all(v).begin(), all(v).end()};
}

// Reads an enumerator, which must lie between 0 and `last`.
template <class E>
E checked(int64_t number, E last) {
  VESTA_REQUIRE(number >= 0 && number <= static_cast<int64_t>(last), "an enumerator {}", number);
  return static_cast<E>(number);
}

template <class To, class From, class F>
flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<To>>> list(flatbuffers::FlatBufferBuilder& b,
                                                                       const std::vector<From>& from, F&& make) {
  std::vector<flatbuffers::Offset<To>> made;
  made.reserve(from.size());
  for (const From& x : from) made.push_back(make(x));
  return b.CreateVector(made);
}

// A copy of the bytes at an address that is aligned enough for FlatBuffers' numbers.
class Aligned {
 public:
  explicit Aligned(std::string_view bytes) : words_((bytes.size() + 7) / 8), size_(bytes.size()) {
    if (!bytes.empty()) std::memcpy(words_.data(), bytes.data(), bytes.size());
  }
  const uint8_t* data() const { return reinterpret_cast<const uint8_t*>(words_.data()); }
  // The limits for nesting and tables hold for every schema of Vesta.
  flatbuffers::Verifier verifier() const { return {data(), size_, 16, 1 << 24}; }

 private:
  std::vector<uint64_t> words_;
  size_t size_;
};

}  // namespace vesta::artifact::flat
