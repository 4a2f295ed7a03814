#include <unordered_map>

#include "artifact/bytes.h"
#include "artifact/flat.h"
#include "artifact/wire.h"

namespace vesta::artifact {
namespace {

using flatbuffers::Offset;

// Encodes one artifact. Each entry has its own objects and programs.
class Encoder {
 public:
  explicit Encoder(flatbuffers::FlatBufferBuilder& b) : b_(b) {}

  Offset<wire::Artifact> run(const Artifact& a) {
    const auto entries =
        flat::list<wire::Artifact>(b_, a.entries, [&](const Artifact& entry) { return Encoder(b_).run(entry); });
    const auto inputs = flat::list<wire::Input>(b_, a.inputs, [&](const InputDesc& i) {
      const auto type = tensor(i.type);
      return wire::CreateInput(b_, type, i.parameter, b_.CreateSharedString(i.name), static_cast<uint8_t>(i.alignment));
    });
    std::vector<wire::Symbol> symbols;
    for (const SymbolSource& s : a.symbols) symbols.emplace_back(s.input, s.dim, s.stride);
    const auto guards = flat::list<wire::Guard>(b_, a.guards, [&](const Guard& g) {
      return wire::CreateGuard(b_, number(g.left), static_cast<uint8_t>(g.relation), number(g.right),
                               b_.CreateSharedString(g.text));
    });
    const auto same = flat::list<wire::Group>(
        b_, a.facts.same, [&](const std::vector<int>& g) { return wire::CreateGroup(b_, b_.CreateVector(g)); });
    std::vector<wire::InputOffset> offsets;
    for (const auto& [input, offset] : a.facts.offsets) offsets.emplace_back(input, offset);
    std::vector<wire::InputConjNeg> conj_neg;
    for (const auto& [input, p] : a.facts.conj_neg) conj_neg.emplace_back(input, p.conj, p.neg);
    const auto buffers = flat::list<wire::Buffer>(b_, a.buffers, [&](const Buffer& x) {
      const auto type = tensor(x.type);
      return wire::CreateBuffer(b_, static_cast<uint8_t>(x.role), type, x.input, x.output, x.first_step, x.last_step,
                                number(x.bytes));
    });
    const auto prepacked = steps(a.prepacked), steps_made = steps(a.steps);
    const auto outputs = flat::list<wire::Output>(b_, a.outputs, [&](const Output& o) {
      const auto from = view(o.view);
      const auto type = tensor(o.type);
      return wire::CreateOutput(b_, static_cast<uint8_t>(o.kind), from, o.alias, type, number(o.storage_offset),
                                o.absolute_offset, o.conj_neg.conj, o.conj_neg.neg, number(o.integer), o.hidden);
    });
    const auto kernels = flat::list<wire::KernelInfo>(b_, a.about.kernels, [&](const KernelInfo& k) {
      const auto ops = b_.CreateVectorOfStrings(k.ops);
      return wire::CreateKernelInfo(b_, b_.CreateSharedString(k.name), ops, k.bytes, k.estimated_us, k.flops);
    });
    const auto externs = flat::list<wire::ExternReason>(b_, a.about.externs, [&](const ExternReason& e) {
      const auto op = b_.CreateSharedString(e.op);
      return wire::CreateExternReason(b_, op, b_.CreateSharedString(e.reason), e.count);
    });
    const auto key = flat::list<wire::KeyField>(b_, a.about.key, [&](const auto& field) {
      const auto name = b_.CreateString(field.first);
      return wire::CreateKeyField(b_, name, b_.CreateString(field.second));
    });
    const auto objects = b_.CreateVector(objects_);
    const auto programs = b_.CreateVectorOfStructs(program_steps_);
    const auto program_sizes = b_.CreateVector(program_sizes_);
    const auto symbols_made = b_.CreateVectorOfStructs(symbols);
    const auto offsets_made = b_.CreateVectorOfStructs(offsets);
    const auto conj_neg_made = b_.CreateVectorOfStructs(conj_neg);
    const auto mutated = b_.CreateVector(a.mutated);
    const auto parameters = b_.CreateVector(a.prepacked_parameters);
    const auto arena = b_.CreateVector(a.arena.offsets);
    wire::ArtifactBuilder out(b_);
    out.add_programs(programs);
    out.add_program_sizes(program_sizes);
    out.add_inputs(inputs);
    out.add_symbols(symbols_made);
    out.add_guards(guards);
    out.add_same(same);
    out.add_offsets(offsets_made);
    out.add_conj_neg(conj_neg_made);
    out.add_mutated(mutated);
    out.add_buffers(buffers);
    out.add_objects(objects);
    out.add_prepacked(prepacked);
    out.add_prepacked_parameters(parameters);
    out.add_steps(steps_made);
    out.add_outputs(outputs);
    out.add_is_static(a.is_static);
    out.add_outputs_recur(a.outputs_recur);
    out.add_arena_offsets(arena);
    out.add_arena_kept_bytes(a.arena.kept_bytes);
    out.add_arena_early_bytes(a.arena.early_bytes);
    out.add_arena_early_end(a.arena.early_end);
    out.add_kernels(kernels);
    out.add_externs(externs);
    out.add_ops_fused(a.about.ops_fused);
    out.add_ops_extern(a.about.ops_extern);
    out.add_packed_bytes(a.about.packed_bytes);
    out.add_key(key);
    out.add_entries(entries);
    out.add_device(static_cast<uint8_t>(a.device.type));
    out.add_device_index(a.device.index);
    return out.Finish();
  }

 private:
  uint32_t number(const Size& s) {
    if (s.steps.empty()) return kNoProgram;
    std::string key;
    for (const auto& step : s.steps) {
      key += static_cast<char>(step.code);
      key.append(reinterpret_cast<const char*>(&step.value), sizeof(step.value));
    }
    const auto [at, fresh] = programs_.emplace(std::move(key), static_cast<uint32_t>(program_sizes_.size()));
    if (fresh) {
      for (const auto& step : s.steps) program_steps_.emplace_back(step.value, static_cast<uint8_t>(step.code));
      program_sizes_.push_back(static_cast<uint16_t>(s.steps.size()));
    }
    return at->second;
  }
  Offset<flatbuffers::Vector<uint32_t>> numbers(const std::vector<Size>& sizes) {
    std::vector<uint32_t> made;
    made.reserve(sizes.size());
    for (const Size& s : sizes) made.push_back(number(s));
    return b_.CreateVector(made);
  }

  Offset<wire::TensorDesc> tensor(const TensorDesc& t) {
    const auto sizes = numbers(t.sizes), strides = numbers(t.strides);
    return wire::CreateTensorDesc(b_, static_cast<uint8_t>(t.dtype), static_cast<uint8_t>(t.device.type),
                                  t.device.index, sizes, strides);
  }
  Offset<wire::View> view(const View& v) {
    const auto sizes = numbers(v.sizes), strides = numbers(v.strides);
    return wire::CreateView(b_, v.buffer, static_cast<uint8_t>(v.dtype), sizes, strides, number(v.offset), v.whole);
  }

  uint32_t object(const machine::Object& o) {
    const auto [at, fresh] = object_numbers_.emplace(o.symbol, static_cast<uint32_t>(objects_.size()));
    if (fresh) {
      const auto symbol = b_.CreateString(o.symbol);
      b_.ForceVectorAlignment(o.bytes.size(), 1, 16);
      const auto bytes = b_.CreateVector(reinterpret_cast<const uint8_t*>(o.bytes.data()), o.bytes.size());
      objects_.push_back(wire::CreateObject(b_, static_cast<uint8_t>(o.form), symbol, bytes));
    }
    return at->second;
  }

  Offset<flatbuffers::Vector<Offset<wire::Step>>> steps(const std::vector<Step>& from) {
    const auto tagged = [&]<class T>(Offset<T> made) {
      return wire::CreateStep(b_, wire::StepKindTraits<T>::enum_value, made.Union());
    };
    return flat::list<wire::Step>(
        b_, from, [&](const Step& s) { return std::visit([&](const auto& x) { return tagged(step(x)); }, s); });
  }

  Offset<wire::Launch> step(const Launch& l) {
    const uint32_t code = object(*l.object);
    const auto name = b_.CreateSharedString(l.name);
    const auto buffers = b_.CreateVector(l.buffers);
    const auto access = b_.CreateVector(l.access);
    const auto offsets = numbers(l.offsets), sizes = numbers(l.sizes);
    return wire::CreateLaunch(b_, code, name, buffers, access, offsets, sizes, number(l.items), number(l.scratch),
                              number(l.item_cost), l.serial, static_cast<uint16_t>(l.grid.block),
                              static_cast<uint16_t>(l.grid.items), static_cast<uint32_t>(l.grid.shared));
  }
  Offset<wire::Extern> step(const Extern& e) {
    const auto args = flat::list<wire::Arg>(
        b_, e.args, [&](const Arg& a) { return std::visit([&](const auto& v) { return arg(v); }, a.value); });
    const auto op = b_.CreateSharedString(e.op);
    const auto results = b_.CreateVector(e.results);
    const auto integers = e.integers.empty() ? Offset<flatbuffers::Vector<int>>() : b_.CreateVector(e.integers);
    return wire::CreateExtern(b_, op, args, results, b_.CreateSharedString(e.source), integers);
  }
  Offset<wire::Call> step(const Call& c) {
    const auto inputs = flat::list<wire::View>(b_, c.inputs, [&](const View& v) { return view(v); });
    const auto results = b_.CreateVector(c.results);
    return wire::CreateCall(b_, c.entry, inputs, results, b_.CreateSharedString(c.source));
  }
  Offset<wire::Assert> step(const Assert& a) {
    return wire::CreateAssert(b_, a.flag, b_.CreateSharedString(a.message));
  }
  Offset<wire::CopyBack> step(const CopyBack& c) {
    const auto from = view(c.from);
    return wire::CreateCopyBack(b_, from, c.input);
  }

  using Kind = wire::ArgKind;
  Offset<wire::Arg> plain(Kind kind, int64_t integer) { return wire::CreateArg(b_, kind, integer); }
  Offset<wire::Arg> numbers_arg(Kind kind, const std::vector<double>& list) {
    return wire::CreateArg(b_, kind, 0, b_.CreateVector(list));
  }
  Offset<wire::Arg> sizes_arg(Kind kind, const std::vector<Size>& list) {
    return wire::CreateArg(b_, kind, 0, 0, 0, numbers(list));
  }
  Offset<wire::Arg> views_arg(Kind kind, const std::vector<View>& list) {
    const auto made = flat::list<wire::View>(b_, list, [&](const View& v) { return view(v); });
    return wire::CreateArg(b_, kind, 0, 0, 0, 0, made);
  }
  Offset<wire::Arg> arg(NoneArg) { return plain(Kind::None, 0); }
  Offset<wire::Arg> arg(const View& v) { return views_arg(Kind::View, {v}); }
  Offset<wire::Arg> arg(const std::vector<View>& l) { return views_arg(Kind::Views, l); }
  Offset<wire::Arg> arg(bool b) { return plain(Kind::Bool, b); }
  Offset<wire::Arg> arg(const Size& s) { return sizes_arg(Kind::Size, {s}); }
  Offset<wire::Arg> arg(const std::vector<Size>& l) { return sizes_arg(Kind::Sizes, l); }
  Offset<wire::Arg> arg(double d) { return numbers_arg(Kind::Double, {d}); }
  Offset<wire::Arg> arg(const std::vector<double>& l) { return numbers_arg(Kind::Doubles, l); }
  Offset<wire::Arg> arg(const std::vector<bool>& l) { return numbers_arg(Kind::Bools, {l.begin(), l.end()}); }
  Offset<wire::Arg> arg(std::complex<double> c) { return numbers_arg(Kind::Complex, {c.real(), c.imag()}); }
  Offset<wire::Arg> arg(const std::string& s) {
    return wire::CreateArg(b_, Kind::String, 0, 0, b_.CreateSharedString(s));
  }
  Offset<wire::Arg> arg(DType t) { return plain(Kind::DType, static_cast<int64_t>(t)); }
  Offset<wire::Arg> arg(Device d) {
    return plain(Kind::Device, static_cast<int64_t>(d.type) << 8 | static_cast<uint8_t>(d.index));
  }
  Offset<wire::Arg> arg(MemoryFormat f) { return plain(Kind::MemoryFormat, static_cast<int64_t>(f)); }
  Offset<wire::Arg> arg(Layout l) { return plain(Kind::Layout, static_cast<int64_t>(l)); }

  flatbuffers::FlatBufferBuilder& b_;
  std::unordered_map<std::string, uint32_t> programs_, object_numbers_;
  std::vector<wire::ExprStep> program_steps_;
  std::vector<uint16_t> program_sizes_;
  std::vector<Offset<wire::Object>> objects_;
};

}  // namespace

std::string encode(const Artifact& artifact) {
  flatbuffers::FlatBufferBuilder b(1 << 16);
  b.Finish(Encoder(b).run(artifact));
  return {reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()};
}

}  // namespace vesta::artifact
