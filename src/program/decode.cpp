#include <fmt/format.h>
#include <program_generated.h>

#include <bit>

#include "artifact/bytes.h"
#include "artifact/flat.h"
#include "program/program.h"

namespace vesta::program {
namespace {

using artifact::flat::all, artifact::flat::checked, artifact::flat::numbers, artifact::flat::text;

Scalar scalar(const wire::Scalar& s) {
  switch (s.kind()) {
    case wire::ScalarKind::None: return std::monostate();
    case wire::ScalarKind::Bool: return s.integer() != 0;
    case wire::ScalarKind::Int: return int64_t{s.integer()};
    case wire::ScalarKind::Float: return std::bit_cast<double>(s.real());
    case wire::ScalarKind::Complex:
      return std::complex<double>(std::bit_cast<double>(s.real()), std::bit_cast<double>(s.imaginary()));
    case wire::ScalarKind::String: return text(s.text());
    case wire::ScalarKind::Name: return Name{text(s.text())};
  }
  VESTA_REQUIRE(false, "a value of an unknown kind");
}

std::optional<Scalar> optional(const wire::Scalar* s) { return s ? std::optional<Scalar>(scalar(*s)) : std::nullopt; }

Scalar or_none(const wire::Scalar* s) { return s ? scalar(*s) : Scalar(); }

Target target(const wire::Target& t) {
  return {.device = checked(t.device(), DeviceType::Other),
          .triple = text(t.triple()),
          .cpu = text(t.cpu()),
          .features = text(t.features()),
          .vector_bytes = t.vector_bytes(),
          .avx512 = t.avx512(),
          .half_convert = t.half_convert(),
          .fma = t.fma(),
          .streaming_stores = t.streaming_stores(),
          .threads = t.threads(),
          .l1_bytes = t.l1_bytes(),
          .l2_bytes = t.l2_bytes(),
          .l3_bytes = t.l3_bytes(),
          .memory_bytes_per_ns = t.memory_bytes_per_ns(),
          .cache_bytes_per_ns = t.cache_bytes_per_ns()};
}

Variant variant(const wire::Variant& v) {
  Variant out;
  for (const wire::Place* p : all(v.places())) out.places.push_back({p->parent(), p->index(), optional(p->key())});
  for (const wire::Check* c : all(v.checks())) {
    Check check{checked(c->what(), Check::What::Different),
                c->place(),
                checked(c->kind(), Kind::Dict),
                or_none(c->value()),
                c->number(),
                {}};
    for (const wire::Scalar* k : all(c->keys())) check.keys.push_back(scalar(*k));
    out.checks.push_back(std::move(check));
  }
  for (const wire::Input* i : all(v.inputs())) out.inputs.push_back({i->place(), i->weight(), i->is_number()});
  out.integers = numbers(v.integers());
  for (const wire::Make* m : all(v.makes()))
    out.makes.push_back({checked(m->what(), Make::What::Dict), or_none(m->value()), m->index(), numbers(m->parts())});
  out.artifact = artifact::decode({reinterpret_cast<const char*>(v.artifact()->data()), v.artifact()->size()});
  const wire::Origin& o = *v.origin();
  out.origin = {text(o.graph()),   o.inference(),         text(o.numerics()), o.packed_weights(),
                o.kernels(),       target(*o.target()),   text(o.torch()),    o.cuda_graphs(),
                o.copied_inputs(), o.cuda_graph_memory(), o.deterministic()};
  return out;
}

}  // namespace

Program decode(std::string_view bytes) {
  const artifact::flat::Aligned aligned(bytes);
  flatbuffers::Verifier verifier = aligned.verifier();
  VESTA_REQUIRE(bytes.size() >= 8 && wire::VerifyProgramBuffer(verifier),
                "its bytes refer to a position outside of them");
  const wire::Program& in = *wire::GetProgram(aligned.data());
  if (in.artifact_format() != artifact::kFormat)
    throw UserError(
        fmt::format("its code has format {}, but this version of Vesta reads format {}; save the program again",
                    in.artifact_format(), artifact::kFormat));
  Program out;
  out.name = text(in.name());
  for (const wire::Parameter* p : all(in.parameters()))
    out.parameters.push_back({text(p->name()), checked(p->how(), Parameter::How::Keywords), optional(p->fallback())});
  for (const wire::Weight* w : all(in.weights()))
    out.weights.push_back({text(w->name()), checked(w->dtype(), DType::Other),
                           Device{checked(w->device(), DeviceType::Other), w->device_index()}, numbers(w->sizes()),
                           numbers(w->strides()), w->storage(), w->offset()});
  for (const wire::Storage* s : all(in.storages())) out.storages.push_back({s->bytes(), s->at(), s->digest()});
  for (const wire::Variant* v : all(in.variants())) out.variants.push_back(variant(*v));
  for (const flatbuffers::String* a : all(in.assumed())) out.assumed.push_back(text(a));
  verify(out);
  return out;
}

}  // namespace vesta::program
