#include "artifact/require.h"
#include "program/program.h"

namespace vesta::program {
namespace {

template <class T>
int count(const std::vector<T>& v) {
  return static_cast<int>(v.size());
}

void verify(const Weight& w, const Program& p) {
  constexpr int64_t kMost = int64_t{1} << 48;  // products of numbers below this do not overflow
  VESTA_REQUIRE(w.storage >= 0 && w.storage < count(p.storages), "there is no storage {}", w.storage);
  VESTA_REQUIRE(w.sizes.size() == w.strides.size() && w.sizes.size() <= 64, "{} sizes with {} strides", w.sizes.size(),
                w.strides.size());
  VESTA_REQUIRE(element_size(w.dtype) > 0, "a weight of an unknown type");
  VESTA_REQUIRE(w.device.type == DeviceType::CPU || (w.device.type == DeviceType::CUDA && w.device.index >= 0),
                "a weight on {}", to_string(w.device));
  VESTA_REQUIRE(w.offset >= 0 && w.offset < kMost, "a weight at {}", w.offset);
  int64_t last = 0;
  for (size_t d = 0; d < w.sizes.size(); ++d) {
    VESTA_REQUIRE(w.sizes[d] >= 0 && w.sizes[d] < kMost && w.strides[d] >= 0 && w.strides[d] < kMost,
                  "a weight with size {} and stride {}", w.sizes[d], w.strides[d]);
    VESTA_REQUIRE(w.sizes[d] < 2 || w.strides[d] <= kMost / w.sizes[d], "a weight that is too large");
    last += w.sizes[d] > 0 ? (w.sizes[d] - 1) * w.strides[d] : 0;
    VESTA_REQUIRE(last < kMost, "a weight that is too large");
  }
  VESTA_REQUIRE(reach(w) <= p.storages[static_cast<size_t>(w.storage)].bytes, "the weight {} reaches past its storage",
                w.name);
}

void verify(const Variant& v, const Program& p) {
  const auto place = [&](int64_t i) { VESTA_REQUIRE(i >= 0 && i < count(v.places), "there is no place {}", i); };
  for (int i = 0; i < count(v.places); ++i) {
    const Place& at = v.places[static_cast<size_t>(i)];
    VESTA_REQUIRE(at.parent >= -1 && at.parent < i, "a place that refers to a later place");
    VESTA_REQUIRE(at.key ? at.parent >= 0 : at.index >= 0, "a place without an index");
    VESTA_REQUIRE(at.parent >= 0 || at.index < count(p.parameters), "there is no parameter {}", at.index);
  }
  for (const Check& c : v.checks) {
    place(c.place);
    if (c.what == Check::What::Same || c.what == Check::What::Different) place(c.number);
  }
  VESTA_REQUIRE(v.inputs.size() == v.artifact.inputs.size(), "{} inputs of a graph of {}", v.inputs.size(),
                v.artifact.inputs.size());
  for (const Input& i : v.inputs) {
    VESTA_REQUIRE((i.place < 0) != (i.weight < 0), "an input that is neither an argument nor a weight");
    if (i.place >= 0) place(i.place);
    VESTA_REQUIRE(i.weight < count(p.weights), "there is no weight {}", i.weight);
  }
  for (const int i : v.integers) place(i);
  for (const artifact::SymbolSource& s : v.artifact.symbols)
    VESTA_REQUIRE(s.input != artifact::kArgument || s.dim < count(v.integers), "there is no integer {}", s.dim);
  int outputs = 0;
  for (const artifact::Output& o : v.artifact.outputs) outputs += !o.hidden;
  VESTA_REQUIRE(!v.makes.empty(), "a variant without a result");
  for (int i = 0; i < count(v.makes); ++i) {
    const Make& m = v.makes[static_cast<size_t>(i)];
    if (m.what == Make::What::Argument) place(m.index);
    if (m.what == Make::What::Weight)
      VESTA_REQUIRE(m.index >= 0 && m.index < count(p.weights), "there is no weight {}", m.index);
    if (m.what == Make::What::Output)
      VESTA_REQUIRE(m.index >= 0 && m.index < outputs, "there is no output {}", m.index);
    for (const int part : m.parts) VESTA_REQUIRE(part >= 0 && part < i, "a result that refers to a later result");
    VESTA_REQUIRE(m.what != Make::What::Dict || m.parts.size() % 2 == 0, "a key without a value");
    for (size_t k = 0; m.what == Make::What::Dict && k < m.parts.size(); k += 2)
      VESTA_REQUIRE(v.makes[static_cast<size_t>(m.parts[k])].what == Make::What::Constant,
                    "a key that is not constant");
  }
}

}  // namespace

void verify(const Program& p) {
  for (const Storage& s : p.storages) VESTA_REQUIRE(s.bytes >= 0, "a storage of negative size");
  std::vector<const Weight*> first(p.storages.size(), nullptr);
  for (const Weight& w : p.weights) {
    verify(w, p);
    const Weight*& other = first[static_cast<size_t>(w.storage)];
    if (!other) other = &w;
    VESTA_REQUIRE(w.device == other->device, "a storage on {} and on {}", to_string(other->device),
                  to_string(w.device));
  }
  for (const Variant& v : p.variants) verify(v, p);
  VESTA_REQUIRE(!p.variants.empty(), "a program without variants");
}

}  // namespace vesta::program
