#include "runtime/resolve.h"

#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <limits>

#include "artifact/bytes.h"
#include "artifact/require.h"
#include "artifact/uses.h"
#include "base/check.h"
#include "base/memory_plan.h"
#include "interop/torch_types.h"
#include "program/program.h"
#include "runtime/parallel.h"

namespace vesta::runtime {

namespace {

using artifact::Size;
using Symbols = std::span<const int64_t>;

constexpr int64_t kMostBytes = int64_t{1} << 48;  // of a buffer, so that sums do not overflow

std::vector<int64_t> values(const std::vector<Size>& sizes, Symbols symbols) {
  std::vector<int64_t> out(sizes.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = sizes[i].run(symbols);
  return out;
}

ResolvedTensor resolve_type(const artifact::TensorDesc& t, Symbols symbols, bool known = true) {
  ResolvedTensor r;
  r.dtype = to_scalar_type(t.dtype);
  r.device = to_torch(t.device);
  if (!known) return r;
  r.sizes = values(t.sizes, symbols);
  r.strides = values(t.strides, symbols);
  for (int64_t s : r.sizes) r.empty |= s == 0;
  return r;
}

ResolvedView resolve_view(const artifact::View& v, const Resolved& r, Symbols symbols) {
  ResolvedView out;
  out.buffer = v.buffer;
  if (v.buffer < 0) return out;
  out.whole = v.whole;
  out.offset = v.whole ? 0 : v.offset.run(symbols);
  if (v.whole) {
    out.type = r.buffers[v.buffer];
  } else {
    out.type.dtype = to_scalar_type(v.dtype);
    out.type.device = r.buffers[v.buffer].device;
    out.type.sizes = values(v.sizes, symbols);
    out.type.strides = values(v.strides, symbols);
    for (int64_t s : out.type.sizes) out.type.empty |= s == 0;
  }
  return out;
}

const c10::Type& element_type(const c10::Argument& argument) {
  const c10::Type* t = argument.real_type().get();
  if (const auto* o = t->castRaw<c10::OptionalType>()) t = o->getElementType().get();
  return *t;
}

// Scalar[] or Scalar?[]
bool is_scalar_list(const c10::Type& t) {
  const auto* list = t.castRaw<c10::ListType>();
  if (!list) return false;
  const c10::Type* element = list->getElementType().get();
  if (const auto* o = element->castRaw<c10::OptionalType>()) element = o->getElementType().get();
  return element->kind() == c10::TypeKind::NumberType;
}

template <class T>
c10::IValue scalar_list(const std::vector<T>& from, const c10::Type& type) {
  c10::impl::GenericList list(type.castRaw<c10::ListType>()->getElementType());
  for (const T& x : from) list.push_back(c10::IValue(c10::Scalar(x)));
  return list;
}

// Plain data as an IValue of the schema's type.
c10::IValue to_ivalue(const artifact::Arg& arg, const c10::Type& type, Symbols symbols) {
  const auto list_of = [&](const auto& values) -> c10::IValue {
    return is_scalar_list(type) ? scalar_list(values, type) : c10::IValue(values);
  };
  return std::visit<c10::IValue>(
      program::Overloaded{
          [](const artifact::NoneArg&) { return c10::IValue(); },
          [&](const Size& v) -> c10::IValue {
            const int64_t i = v.run(symbols);
            if (type.kind() == c10::TypeKind::FloatType) return static_cast<double>(i);
            if (type.kind() == c10::TypeKind::ListType) return c10::List<int64_t>({i});
            return i;
          },
          [&](const std::vector<Size>& v) { return list_of(values(v, symbols)); },
          [&](const std::vector<double>& v) { return list_of(v); },
          [](const std::vector<bool>& v) {
            c10::List<bool> list;
            for (bool b : v) list.push_back(b);
            return list;
          },
          [](const std::complex<double>& v) { return c10::complex<double>(v); },
          [](DType v) { return static_cast<int64_t>(to_scalar_type(v)); }, [](Device v) { return to_torch(v); },
          [](MemoryFormat v) { return static_cast<int64_t>(to_torch(v)); },
          [](Layout v) {
            VESTA_CHECK(v == Layout::Strided, "an extern call with a layout that is not strided");
            return static_cast<int64_t>(c10::Layout::Strided);
          },
          [](const artifact::View&) { return c10::IValue(); },               // a run fills in the tensors
          [](const std::vector<artifact::View>&) { return c10::IValue(); },  // as here
          [](const auto& v) { return c10::IValue(v); },                      // bool, double, string
      },
      arg.value);
}

// ATen accepts any number as an enumerator and looks it up in tables.
void require_enumerator(const artifact::Extern& e, size_t i, const c10::Argument& formal, const c10::Type& type) {
  const auto is = [&](auto* none) {
    return std::holds_alternative<std::remove_pointer_t<decltype(none)>>(e.args[i].value) ||
           std::holds_alternative<artifact::NoneArg>(e.args[i].value);
  };
  const c10::TypeKind kind = type.kind();
  const bool fits = kind == c10::TypeKind::ScalarTypeType     ? is(static_cast<DType*>(nullptr))
                    : kind == c10::TypeKind::LayoutType       ? is(static_cast<Layout*>(nullptr))
                    : kind == c10::TypeKind::MemoryFormatType ? is(static_cast<MemoryFormat*>(nullptr))
                                                              : true;
  VESTA_REQUIRE(fits, "{} takes an enumerator for {}", e.op, formal.name());
}

ResolvedExtern resolve_extern(const artifact::Extern& e, const c10::FunctionSchema& schema, const Resolved& r,
                              Symbols symbols) {
  ResolvedExtern out;
  const auto& formal = schema.arguments();
  VESTA_CHECK(e.args.size() == formal.size(), "{} takes {} arguments, the artifact has {}", e.op, formal.size(),
              e.args.size());
  out.stack.reserve(formal.size());
  for (size_t i = 0; i < formal.size(); ++i) {
    const c10::Type& type = element_type(formal[i]);
    require_enumerator(e, i, formal[i], type);
    out.stack.push_back(to_ivalue(e.args[i], type, symbols));
    // An undefined tensor, as the backward of attention takes for a bias that there is not.
    if (out.stack.back().isNone() && formal[i].type()->kind() == c10::TypeKind::TensorType)
      out.stack.back() = at::Tensor();
    ResolvedExtern::Slot slot;
    slot.argument = static_cast<int>(i);
    if (const auto* view = std::get_if<artifact::View>(&e.args[i].value)) {
      if (view->buffer < 0) continue;
      slot.views.push_back(resolve_view(*view, r, symbols));
    } else if (const auto* list = std::get_if<std::vector<artifact::View>>(&e.args[i].value)) {
      const auto* list_type = type.castRaw<c10::ListType>();
      VESTA_CHECK(list_type, "{} got a list for its argument {}", e.op, formal[i].name());
      slot.kind = list_type->getElementType()->kind() == c10::TypeKind::OptionalType
                      ? ResolvedExtern::Slot::OptionalList
                      : ResolvedExtern::Slot::List;
      for (const artifact::View& v : *list) slot.views.push_back(resolve_view(v, r, symbols));
    } else {
      continue;
    }
    out.slots.push_back(std::move(slot));
  }
  return out;
}

ResolvedLaunch resolve_launch(const artifact::Launch& l, const ShapingSymbols& shaping, Symbols symbols) {
  ResolvedLaunch out;
  out.offsets = values(l.offsets, symbols);
  out.sizes = values(l.sizes, symbols);
  for (size_t i = 0; i < l.sizes.size(); ++i)
    if (!shaping.cover(l.sizes[i])) out.of_run.push_back(static_cast<int>(i));
  out.items = l.items.run(symbols);
  out.scratch = l.scratch.run(symbols);
  if (!l.serial && l.grid.block == 0) out.grain = parallel_grain(out.items, l.item_cost.run(symbols));
  return out;
}

std::vector<Resolved::Step> resolve_steps(std::span<const artifact::Step> steps,
                                          std::span<const c10::FunctionSchema* const> schemas, const Resolved& r,
                                          const ShapingSymbols& shaping, Symbols symbols) {
  std::vector<Resolved::Step> out(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    if (const auto* l = std::get_if<artifact::Launch>(&steps[i])) {
      out[i].launch = resolve_launch(*l, shaping, symbols);
    } else if (const auto* e = std::get_if<artifact::Extern>(&steps[i])) {
      out[i].call = resolve_extern(*e, *schemas[i], r, symbols);
    } else if (const auto* c = std::get_if<artifact::Call>(&steps[i])) {
      for (const artifact::View& v : c->inputs) out[i].inputs.push_back(resolve_view(v, r, symbols));
    } else if (const auto* c = std::get_if<artifact::CopyBack>(&steps[i])) {
      out[i].copy = resolve_view(c->from, r, symbols);
    }
  }
  return out;
}

// Returns the bytes of the buffers. Results of steps whose size is not known yet count as 0.
std::vector<int64_t> place_arena(const artifact::Artifact& a, const artifact::Definitions& definitions, Resolved& r) {
  if (a.is_static) {
    r.arena = a.arena;
    return {};
  }
  std::vector<BufferLifetime> lifetimes;
  std::vector<int64_t> bytes;
  for (const artifact::Buffer& b : a.buffers) {
    const bool ours =
        b.role == artifact::Role::Arena || b.role == artifact::Role::Output || b.role == artifact::Role::Returned;
    const bool known = definitions.known_after(b.bytes) == artifact::kBeforeTheRun;
    bytes.push_back(ours && known ? b.bytes.run(r.symbols) : 0);
    VESTA_REQUIRE(bytes.back() >= 0 && bytes.back() < kMostBytes, "a buffer of {} bytes", bytes.back());
    lifetimes.push_back({bytes.back(), b.first_step, b.last_step, b.role == artifact::Role::Arena});
  }
  r.arena = lay_out_arena(lifetimes);
  return bytes;
}

void find_uses_of_kept_block(const artifact::Artifact& a, Resolved& r) {
  r.kept_begin = std::numeric_limits<int>::max();
  for (const artifact::Buffer& b : a.buffers) {
    if (b.role != artifact::Role::Arena || b.first_step < 0 || r.arena.is_early(b.last_step)) continue;
    r.kept_begin = std::min(r.kept_begin, b.first_step);
    r.kept_end = std::max(r.kept_end, b.last_step + 1);
  }
}

int64_t reach(const ResolvedTensor& t) {
  return artifact::reach(t.sizes, t.strides, static_cast<int64_t>(c10::elementSize(t.dtype)));
}

class Bounds {
 public:
  explicit Bounds(const Resolved& r) {
    for (const ResolvedTensor& b : r.buffers) bytes_.push_back(reach(b));
  }

  int64_t bytes(size_t buffer) const { return bytes_[buffer]; }

  void view(const ResolvedView& v) const {
    if (v.buffer < 0 || v.whole) return;
    const int64_t bytes = reach(v.type), whole = bytes_[static_cast<size_t>(v.buffer)];
    const __int128 at = static_cast<__int128>(v.offset) * static_cast<int64_t>(c10::elementSize(v.type.dtype));
    VESTA_REQUIRE(bytes == 0 || (v.offset >= 0 && at <= whole - bytes), "a view beyond its buffer");
  }

  void steps(const std::vector<Resolved::Step>& steps) const {
    for (const Resolved::Step& s : steps) {
      view(s.copy);
      for (const ResolvedView& v : s.inputs) view(v);
      for (const ResolvedExtern::Slot& slot : s.call.slots)
        for (const ResolvedView& v : slot.views) view(v);
      VESTA_REQUIRE(s.launch.items >= 0 && s.launch.scratch >= 0, "a launch of {} items with {} bytes of scratch",
                    s.launch.items, s.launch.scratch);
    }
  }

 private:
  std::vector<int64_t> bytes_;
};

// Bounds checks at run time: what verify() checks where sizes are constants, for an artifact whose sizes are known only
// now. Throws InternalError where a buffer is too small for its contents, a view leaves its buffer, or a launch has a
// negative size. `arena_bytes`: by buffer; empty if they were checked when the run began.
void require_bounds(const artifact::Artifact& a, const Resolved& r, std::span<const int64_t> arena_bytes) {
  const Bounds bounds(r);
  for (size_t b = 0; b < arena_bytes.size(); ++b)
    VESTA_REQUIRE(a.buffers[b].role != artifact::Role::Arena || bounds.bytes(b) <= arena_bytes[b],
                  "a buffer of {} bytes is too small", arena_bytes[b]);
  bounds.steps(r.prepacked);
  bounds.steps(r.steps);
  for (const Resolved::Output& o : r.outputs) bounds.view(o.view);
}

// A step may return integers that are not sizes.
void require_sizes(const artifact::Artifact& a, const Resolved& r, int defined_by, size_t buffer) {
  for (const int64_t size : r.buffers[buffer].sizes)
    VESTA_CHECK(size >= 0, "{} returned integers that make {} the size of a tensor",
                std::get<artifact::Extern>(a.steps[static_cast<size_t>(defined_by)]).op, size);
}

}  // namespace

ShapingSymbols::ShapingSymbols(const artifact::Artifact& a, const artifact::Definitions& definitions)
    : shapes_(a.symbols.size(), a.device.type != DeviceType::CPU || !definitions.none()) {
  for (const artifact::Buffer& b : a.buffers) add(b.type), add(b.bytes);
  for (const artifact::Output& o : a.outputs) {
    using Kind = artifact::OutputKind;
    if (o.kind == Kind::InputView || o.kind == Kind::OutputView) add(o.type), add(o.storage_offset);
    if (o.kind != Kind::Fresh || o.view.whole) continue;
    add(o.view.offset);
    for (const auto* list : {&o.view.sizes, &o.view.strides})
      for (const Size& s : *list) add(s);
  }
  for (const artifact::Step& step : a.prepacked) artifact::for_each_size(step, [&](const Size& s) { add(s); });
  for (const artifact::Step& step : a.steps) {
    if (const auto* l = std::get_if<artifact::Launch>(&step)) {
      for (const Size& s : l->offsets) add(s);
      add(l->items), add(l->scratch), add(l->item_cost);
    } else {
      artifact::for_each_size(step, [&](const Size& s) { add(s); });
    }
  }
}

void ShapingSymbols::add(const Size& size) {
  for (const Size::Step& step : size.steps)
    if (step.code == Size::Code::Symbol) shapes_[static_cast<size_t>(step.value)] = true;
}

void ShapingSymbols::add(const artifact::TensorDesc& type) {
  for (const auto* list : {&type.sizes, &type.strides})
    for (const Size& s : *list) add(s);
}

bool ShapingSymbols::are_equal(Symbols a, Symbols b) const {
  for (size_t i = 0; i < shapes_.size(); ++i)
    if (shapes_[i] && a[i] != b[i]) return false;
  return true;
}

bool ShapingSymbols::cover(const Size& size) const {
  return std::ranges::all_of(size.steps, [this](const Size::Step& step) {
    return step.code != Size::Code::Symbol || shapes_[static_cast<size_t>(step.value)];
  });
}

Resolved::~Resolved() {
  // Not recursive: the depth would be the number of steps that define symbols.
  std::shared_ptr<const Resolved> last = next.exchange(nullptr);
  while (last && last.use_count() == 1) last = last->next.exchange(nullptr);
}

std::shared_ptr<const Resolved> resolve(const artifact::Artifact& a, const artifact::Definitions& definitions,
                                        const ShapingSymbols& shaping, const Schemas& schemas,
                                        std::span<const int64_t> symbols, const Resolved* before) {
  auto r = std::make_shared<Resolved>();
  r->symbols.assign(symbols.begin(), symbols.end());
  r->first_step = before ? before->first_step + before->steps.size() : 0;
  const int done = static_cast<int>(r->first_step) - 1;
  r->buffers.reserve(a.buffers.size());
  for (size_t b = 0; b < a.buffers.size(); ++b) {
    const artifact::TensorDesc& type = a.buffers[b].type;
    const int known_after = definitions.known_after(type);
    r->buffers.push_back(resolve_type(type, symbols, known_after <= done));
    if (known_after == done && before) require_sizes(a, *r, done, b);
  }
  std::vector<int64_t> bytes;
  if (before) {
    r->arena = before->arena;
    r->kept_begin = before->kept_begin;
    r->kept_end = before->kept_end;
  } else {
    bytes = place_arena(a, definitions, *r);
    find_uses_of_kept_block(a, *r);
    r->prepacked = resolve_steps(a.prepacked, schemas.prepacked, *r, shaping, symbols);
  }
  const auto next = static_cast<size_t>(definitions.next(done + 1));
  const size_t count = std::min(next + 1, a.steps.size()) - r->first_step;
  r->steps = resolve_steps(std::span(a.steps).subspan(r->first_step, count),
                           std::span(schemas.steps).subspan(r->first_step, count), *r, shaping, symbols);
  for (const artifact::Output& o : a.outputs) {
    if (next < a.steps.size()) break;
    Resolved::Output out;
    using Kind = artifact::OutputKind;
    if (o.kind == Kind::Fresh) out.view = resolve_view(o.view, *r, symbols);
    if (o.kind == Kind::InputView || o.kind == Kind::OutputView) {
      out.type = resolve_type(o.type, symbols);
      out.storage_offset = o.storage_offset.run(symbols);
    }
    r->outputs.push_back(std::move(out));
  }
  if (!a.is_static) require_bounds(a, *r, bytes);
  return r;
}

}  // namespace vesta::runtime
