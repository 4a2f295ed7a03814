#include <program_generated.h>

#include <bit>

#include "artifact/bytes.h"
#include "artifact/flat.h"
#include "program/program.h"

namespace vesta::program {
namespace {

using artifact::flat::list;
using flatbuffers::Offset;

class Encoder {
 public:
  std::string run(const Program& p) {
    const auto name = b_.CreateString(p.name);
    const auto parameters = list<wire::Parameter>(b_, p.parameters, [&](const Parameter& x) {
      const auto label = b_.CreateString(x.name);
      return wire::CreateParameter(b_, label, static_cast<uint8_t>(x.how), optional(x.fallback));
    });
    const auto weights = list<wire::Weight>(b_, p.weights, [&](const Weight& w) {
      const auto label = b_.CreateString(w.name);
      const auto sizes = b_.CreateVector(w.sizes), strides = b_.CreateVector(w.strides);
      return wire::CreateWeight(b_, label, static_cast<uint8_t>(w.dtype), static_cast<uint8_t>(w.device.type),
                                w.device.index, sizes, strides, w.storage, w.offset);
    });
    std::vector<wire::Storage> storages;
    for (const Storage& s : p.storages) storages.emplace_back(s.bytes, s.at, s.digest);
    const auto storages_made = b_.CreateVectorOfStructs(storages);
    const auto variants = list<wire::Variant>(b_, p.variants, [&](const Variant& v) { return variant(v); });
    const auto assumed = b_.CreateVectorOfStrings(p.assumed);
    b_.Finish(wire::CreateProgram(b_, name, artifact::kFormat, parameters, weights, storages_made, variants, assumed));
    return {reinterpret_cast<const char*>(b_.GetBufferPointer()), b_.GetSize()};
  }

 private:
  Offset<wire::Scalar> scalar(const Scalar& s) {
    const auto kind = static_cast<wire::ScalarKind>(s.index());
    const auto text = [&](const std::string& v) { return wire::CreateScalar(b_, kind, 0, 0, 0, b_.CreateString(v)); };
    return std::visit(Overloaded{
                          [&](std::monostate) { return wire::CreateScalar(b_, kind); },
                          [&](bool v) { return wire::CreateScalar(b_, kind, v); },
                          [&](int64_t v) { return wire::CreateScalar(b_, kind, v); },
                          [&](double v) { return wire::CreateScalar(b_, kind, 0, std::bit_cast<uint64_t>(v)); },
                          [&](const std::complex<double>& v) {
                            return wire::CreateScalar(b_, kind, 0, std::bit_cast<uint64_t>(v.real()),
                                                      std::bit_cast<uint64_t>(v.imag()));
                          },
                          [&](const std::string& v) { return text(v); },
                          [&](const Name& v) { return text(v.text); },
                      },
                      s);
  }
  Offset<wire::Scalar> optional(const std::optional<Scalar>& s) { return s ? scalar(*s) : Offset<wire::Scalar>(); }

  Offset<wire::Target> target(const Target& t) {
    const auto triple = b_.CreateString(t.triple), cpu = b_.CreateString(t.cpu), features = b_.CreateString(t.features);
    return wire::CreateTarget(b_, static_cast<uint8_t>(t.device), triple, cpu, features, t.vector_bytes, t.avx512,
                              t.half_convert, t.fma, t.streaming_stores, t.threads, t.l1_bytes, t.l2_bytes, t.l3_bytes,
                              t.memory_bytes_per_ns, t.cache_bytes_per_ns);
  }

  Offset<wire::Variant> variant(const Variant& v) {
    const auto places = list<wire::Place>(b_, v.places, [&](const Place& p) {
      const auto key = optional(p.key);
      return wire::CreatePlace(b_, p.parent, p.index, key);
    });
    const auto checks = list<wire::Check>(b_, v.checks, [&](const Check& c) {
      const auto value = scalar(c.value);
      const auto keys = list<wire::Scalar>(b_, c.keys, [&](const Scalar& k) { return scalar(k); });
      return wire::CreateCheck(b_, static_cast<uint8_t>(c.what), c.place, static_cast<uint8_t>(c.kind), value, c.number,
                               keys);
    });
    std::vector<wire::Input> inputs;
    for (const Input& i : v.inputs) inputs.emplace_back(i.place, i.weight, i.is_number);
    const auto inputs_made = b_.CreateVectorOfStructs(inputs);
    const auto integers = b_.CreateVector(v.integers);
    const auto makes = list<wire::Make>(b_, v.makes, [&](const Make& m) {
      const auto value = scalar(m.value);
      return wire::CreateMake(b_, static_cast<uint8_t>(m.what), value, m.index, b_.CreateVector(m.parts));
    });
    const std::string bytes = artifact::encode(v.artifact);
    const auto artifact = b_.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    const auto graph = b_.CreateString(v.origin.graph), numerics = b_.CreateString(v.origin.numerics),
               torch = b_.CreateString(v.origin.torch);
    const auto origin = wire::CreateOrigin(b_, graph, v.origin.inference, numerics, v.origin.packed_weights,
                                           target(v.origin.target), torch, v.origin.kernels, v.origin.cuda_graphs,
                                           v.origin.copied_inputs, v.origin.cuda_graph_memory, v.origin.deterministic);
    return wire::CreateVariant(b_, places, checks, inputs_made, integers, makes, artifact, origin);
  }

  flatbuffers::FlatBufferBuilder b_{1 << 16};
};

}  // namespace

std::string encode(const Program& program) { return Encoder().run(program); }

}  // namespace vesta::program
