#include "artifact/bytes.h"
#include "artifact/flat.h"
#include "artifact/require.h"
#include "artifact/wire.h"

namespace vesta::artifact {
namespace {

using flat::all, flat::checked, flat::text;

class Decoder {
 public:
  explicit Decoder(const wire::Artifact& from, int depth = 0) : in_(from), depth_(depth) {}

  Artifact run() {
    read_programs();
    for (const wire::Object* o : all(in_.objects())) {
      auto made = std::make_shared<machine::Object>();
      made->form = checked<machine::Form>(o->form(), machine::Form::Text);
      made->symbol = text(o->symbol());
      made->bytes.assign(reinterpret_cast<const char*>(o->bytes()->data()), o->bytes()->size());
      objects_.push_back(std::move(made));
    }
    Artifact a;
    for (const wire::Input* i : all(in_.inputs()))
      a.inputs.push_back({tensor(*i->type()), i->parameter(), text(i->name()), i->alignment()});
    for (const wire::Symbol* s : all(in_.symbols())) a.symbols.push_back({s->input(), s->dim(), s->stride()});
    for (const wire::Guard* g : all(in_.guards()))
      a.guards.push_back(
          {size(g->left()), checked(g->relation(), Relation::AtLeast), size(g->right()), text(g->text())});
    for (const wire::Group* g : all(in_.same())) a.facts.same.push_back(flat::numbers(g->inputs()));
    for (const wire::InputOffset* o : all(in_.offsets())) a.facts.offsets.emplace_back(o->input(), o->offset());
    for (const wire::InputConjNeg* p : all(in_.conj_neg()))
      a.facts.conj_neg.emplace_back(p->input(), ConjNegBits{p->conj(), p->neg()});
    a.mutated = flat::numbers(in_.mutated());
    for (const wire::Buffer* b : all(in_.buffers()))
      a.buffers.push_back({checked(b->role(), Role::Prepacked), tensor(*b->type()), b->input(), b->output(),
                           b->first_step(), b->last_step(), size(b->bytes())});
    a.prepacked = steps(in_.prepacked());
    a.prepacked_parameters = flat::numbers(in_.prepacked_parameters());
    a.steps = steps(in_.steps());
    for (const wire::Output* o : all(in_.outputs())) {
      const OutputKind kind = checked(o->kind(), OutputKind::None);
      a.outputs.push_back({kind,
                           view(*o->view()),
                           o->alias(),
                           tensor(*o->type()),
                           size(o->storage_offset()),
                           o->absolute_offset(),
                           {o->conj(), o->neg()},
                           size(o->integer()),
                           o->hidden()});
    }
    a.device = device(in_.device(), in_.device_index());
    a.is_static = in_.is_static();
    a.outputs_recur = in_.outputs_recur();
    a.arena.offsets = flat::numbers(in_.arena_offsets());
    a.arena.kept_bytes = in_.arena_kept_bytes();
    a.arena.early_bytes = in_.arena_early_bytes();
    a.arena.early_end = in_.arena_early_end();
    for (const wire::KernelInfo* k : all(in_.kernels())) {
      KernelInfo info{text(k->name()), {}, k->bytes(), k->estimated_us(), k->flops()};
      for (const flatbuffers::String* op : all(k->ops())) info.ops.push_back(text(op));
      a.about.kernels.push_back(std::move(info));
    }
    for (const wire::ExternReason* e : all(in_.externs()))
      a.about.externs.push_back({text(e->op()), text(e->reason()), e->count()});
    a.about.ops_fused = in_.ops_fused();
    a.about.ops_extern = in_.ops_extern();
    a.about.packed_bytes = in_.packed_bytes();
    for (const wire::KeyField* f : all(in_.key())) a.about.key.emplace_back(text(f->name()), text(f->value()));
    VESTA_REQUIRE(depth_ <= kMostNested, "entries more than {} deep", kMostNested);
    for (const wire::Artifact* entry : all(in_.entries())) a.entries.push_back(Decoder(*entry, depth_ + 1).run());
    return a;
  }

 private:
  void read_programs() {
    const auto& steps = all(in_.programs());
    uint32_t at = 0;
    if (!in_.program_sizes()) return;
    for (const uint16_t count : *in_.program_sizes()) {
      VESTA_REQUIRE(count <= steps.size() - at, "an expression with steps beyond the end");
      Size program;
      for (uint32_t i = 0; i < count; ++i, ++at)
        program.steps.push_back({checked(steps.Get(at)->code(), Size::Code::Max), steps.Get(at)->value()});
      programs_.push_back(std::move(program));
    }
  }
  Size size(uint32_t number) const {
    if (number == kNoProgram) return {};
    VESTA_REQUIRE(number < programs_.size(), "there is no program {}", number);
    return programs_[number];
  }
  std::vector<Size> sizes(const flatbuffers::Vector<uint32_t>* v) const {
    std::vector<Size> out;
    if (!v) return out;
    out.reserve(v->size());
    for (const uint32_t number : *v) out.push_back(size(number));
    return out;
  }
  static Device device(int64_t type, int64_t index) {
    return {checked(type, DeviceType::Other), static_cast<int8_t>(index)};
  }
  TensorDesc tensor(const wire::TensorDesc& t) const {
    return {checked(t.dtype(), DType::Other), device(t.device(), t.device_index()), sizes(t.sizes()),
            sizes(t.strides())};
  }
  View view(const wire::View& v) const {
    return {v.buffer(), checked(v.dtype(), DType::Other), sizes(v.sizes()), sizes(v.strides()), size(v.offset()),
            v.whole()};
  }

  std::vector<Step> steps(const flatbuffers::Vector<flatbuffers::Offset<wire::Step>>* from) const {
    std::vector<Step> out;
    for (const wire::Step* s : all(from)) {
      switch (s->step_type()) {
        case wire::StepKind::Launch: out.emplace_back(launch(*s->step_as_Launch())); break;
        case wire::StepKind::Extern: out.emplace_back(call(*s->step_as_Extern())); break;
        case wire::StepKind::Call: out.emplace_back(call(*s->step_as_Call())); break;
        case wire::StepKind::Assert:
          out.emplace_back(Assert{s->step_as_Assert()->flag(), text(s->step_as_Assert()->message())});
          break;
        case wire::StepKind::CopyBack:
          out.emplace_back(CopyBack{view(*s->step_as_CopyBack()->from()), s->step_as_CopyBack()->input()});
          break;
        default: VESTA_REQUIRE(false, "a step of an unknown kind");
      }
    }
    return out;
  }
  Launch launch(const wire::Launch& l) const {
    VESTA_REQUIRE(l.object() < objects_.size(), "there is no object {}", l.object());
    Launch out;
    out.object = objects_[l.object()];
    out.name = text(l.name());
    out.buffers = flat::numbers(l.buffers());
    if (l.access()) out.access.assign(l.access()->begin(), l.access()->end());
    out.offsets = sizes(l.offsets());
    out.sizes = sizes(l.sizes());
    out.items = size(l.items());
    out.scratch = size(l.scratch());
    out.item_cost = size(l.item_cost());
    out.serial = l.serial();
    out.grid = {l.block(), l.block_items(), static_cast<int>(l.block_shared())};
    return out;
  }
  Extern call(const wire::Extern& e) const {
    Extern out;
    out.op = text(e.op());
    for (const wire::Arg* a : all(e.args())) out.args.push_back(arg(*a));
    out.results = flat::numbers(e.results());
    out.source = text(e.source());
    out.integers = flat::numbers(e.integers());
    return out;
  }
  Call call(const wire::Call& c) const {
    Call out;
    out.entry = c.entry();
    for (const wire::View* v : all(c.inputs())) out.inputs.push_back(view(*v));
    out.results = flat::numbers(c.results());
    out.source = text(c.source());
    return out;
  }
  static std::vector<double> numbers(const wire::Arg& a, int count = -1) {
    std::vector<double> out = flat::numbers(a.numbers());
    VESTA_REQUIRE(count < 0 || out.size() == static_cast<size_t>(count), "an argument of {} numbers", out.size());
    return out;
  }
  Arg arg(const wire::Arg& a) const {
    switch (a.kind()) {
      case wire::ArgKind::None: return {NoneArg{}};
      case wire::ArgKind::View:
        VESTA_REQUIRE(a.views() && a.views()->size() == 1, "an argument without its tensor");
        return {view(*a.views()->Get(0))};
      case wire::ArgKind::Views: {
        std::vector<View> list;
        for (const wire::View* v : all(a.views())) list.push_back(view(*v));
        return {std::move(list)};
      }
      case wire::ArgKind::Bool: return {a.integer() != 0};
      case wire::ArgKind::Size:
        VESTA_REQUIRE(a.sizes() && a.sizes()->size() == 1, "an argument without its number");
        return {size(a.sizes()->Get(0))};
      case wire::ArgKind::Sizes: return {sizes(a.sizes())};
      case wire::ArgKind::Double: return {numbers(a, 1)[0]};
      case wire::ArgKind::Doubles: return {numbers(a)};
      case wire::ArgKind::Bools: {
        std::vector<bool> list;
        for (const double d : numbers(a)) list.push_back(d != 0);
        return {std::move(list)};
      }
      case wire::ArgKind::Complex: {
        const std::vector<double> parts = numbers(a, 2);
        return {std::complex<double>(parts[0], parts[1])};
      }
      case wire::ArgKind::String: return {text(a.text())};
      case wire::ArgKind::DType: return {checked(a.integer(), DType::Other)};
      case wire::ArgKind::Device: return {device(a.integer() >> 8, static_cast<int8_t>(a.integer() & 0xff))};
      case wire::ArgKind::MemoryFormat: return {checked(a.integer(), MemoryFormat::ChannelsLast3d)};
      case wire::ArgKind::Layout: return {checked(a.integer(), Layout::Other)};
    }
    VESTA_REQUIRE(false, "an argument of an unknown kind");
  }

  const wire::Artifact& in_;
  int depth_;
  std::vector<Size> programs_;
  std::vector<std::shared_ptr<const machine::Object>> objects_;
};

}  // namespace

Artifact decode(std::string_view bytes) {
  const flat::Aligned aligned(bytes);
  flatbuffers::Verifier verifier = aligned.verifier();
  VESTA_REQUIRE(bytes.size() >= 8 && wire::VerifyArtifactBuffer(verifier),
                "its bytes refer to a position outside of them");
  Artifact a = Decoder(*wire::GetArtifact(aligned.data())).run();
  verify(a);
  return a;
}

}  // namespace vesta::artifact
