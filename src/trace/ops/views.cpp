// Views with several results, and views whose memory, autograd history or pending bits differ from the schema.
#include "graph/rules/broadcast.h"
#include "graph/rules/slices.h"
#include "trace/ops/rows.h"
#include "trace/tensors/alias.h"

namespace vesta::trace {
namespace {

void alias(Recorder& r, const Operator& op, Stack& stack) {
  reply(op, stack, r.same(argument(op, stack, 0).toTensor()));
}

void detach(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor out = r.same(argument(op, stack, 0).toTensor());
  traced(out)->detached = true;
  traced(out)->base = -1;
  reply(op, stack, out);
}

at::Tensor view_by(Recorder& r, const char* name, const char* overload, Stack args) {
  record_view(r, *find_operator(name, overload), args);
  return args.at(0).toTensor();
}

void split_at(Recorder& r, const Operator& op, Stack& stack, const at::Tensor& self, int64_t dim,
              const std::vector<Expr>& lengths) {
  c10::List<at::Tensor> out;
  Expr start = 0;
  for (Expr n : lengths) {
    out.push_back(view_by(r, "aten::slice", "Tensor", {self, dim, boxed(r, start), boxed(r, start + n), int64_t{1}}));
    start = start + n;
  }
  reply(op, stack, std::move(out));
}

void split(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor();
  const auto type = r.type_of(self);
  const Expr step = to_int(argument(op, stack, 1));
  VESTA_USER_CHECK(type.dim() > 0, "split expects at least a 1-dimensional tensor");
  const int64_t dim = graph::wrap_dim(r.guards(), to_int(argument(op, stack, 2)), type.dim());
  const Expr size = type.sizes[static_cast<size_t>(dim)];
  // The number of pieces is part of the program; their lengths may stay symbolic.
  int64_t pieces = 1;
  if (step.is_constant(0)) {
    VESTA_USER_CHECK(size.is_constant(0), "split size 0 for a dimension that is not empty");
  } else {
    const Expr count = ceildiv(size, step);
    pieces = std::max<int64_t>(1, count.is_constant() ? count.constant() : r.guards().specialize(count));
  }
  std::vector<Expr> lengths(static_cast<size_t>(pieces), step);
  lengths.back() = size - step * Expr(pieces - 1);
  split_at(r, op, stack, self, dim, lengths);
}

void split_with_sizes(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor();
  const auto type = r.type_of(self);
  const int64_t dim = graph::wrap_dim(r.guards(), to_int(argument(op, stack, 2)), type.dim());
  const graph::IntList lengths = to_int_list(argument(op, stack, 1));
  Expr total = 0;
  for (Expr n : lengths) {
    VESTA_USER_CHECK(!n.is_constant() || n.constant() >= 0, "split_with_sizes: a size is negative");
    total = total + n;
  }
  const Expr size = type.sizes.at(static_cast<size_t>(dim));
  VESTA_USER_CHECK(total == size || r.guards().equal(total, size), "split_with_sizes: the sizes do not add up");
  split_at(r, op, stack, self, dim, lengths);
}

void unbind(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor();
  const auto type = r.type_of(self);
  VESTA_USER_CHECK(type.dim() > 0, "unbind of a tensor without dimensions");
  const int64_t dim = graph::wrap_dim(r.guards(), to_int(argument(op, stack, 1)), type.dim());
  const Expr size = type.sizes[static_cast<size_t>(dim)];
  const int64_t n = size.is_constant() ? size.constant() : r.guards().specialize(size);
  c10::List<at::Tensor> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(view_by(r, "aten::select", "int", {self, dim, i}));
  reply(op, stack, std::move(out));
}

// ATen has computed the strides of a view; view() computes the same.

void reshape_alias(Recorder& r, const Operator& op, Stack& stack) {
  Stack args{argument(op, stack, 0), argument(op, stack, 1)};
  call(r, *find_operator("aten::view", ""), args);
  reply(op, stack, args.at(0));
}

// Its schema hides that the result shares the argument's memory, which kron.out writes through.
void unsafe_view(Recorder& r, const Operator& op, Stack& stack) {
  reshape_alias(r, op, stack);
  if (TracedTensorImpl* impl = traced(stack.back().toTensor())) impl->base = -1;
}

// Whether the elements fill the memory in the order of their strides, both in the compiled program and in eager.
bool is_laid_out(Recorder& r, const Storage& s) {
  const graph::TensorType& base = s.base->type;
  const bool given = s.input >= 0 && s.base == s.initial;  // the caller's own memory
  return graph::is_contiguous(r.guards(), base) || graph::is_non_overlapping_and_dense(base) ||
         (given && graph::is_dense(r.guards(), base));
}

at::Tensor part_of(Recorder& r, at::Tensor t, const graph::TensorPart& part) {
  for (size_t d = part.dims.size(); d-- > 0;) {
    const auto& [start, step, length] = part.dims[d];
    const auto dim = static_cast<int64_t>(d);
    if (!length)
      t = view_by(r, "aten::select", "int", {t, dim, start});
    else if (!r.type_of(t).sizes[d].is_constant(*length))
      t = view_by(r, "aten::slice", "Tensor", {t, dim, start, start + (*length - 1) * step + 1, step});
  }
  return std::ranges::is_sorted(part.order) ? t : view_by(r, "aten::permute", "", {t, part.order});
}

// The result of as_strided as slices, indices and permutations of `self`, which is no view. nullopt: there are none.
std::optional<at::Tensor> shown_by_strides(Recorder& r, const at::Tensor& self, const graph::IntList& sizes,
                                           const graph::IntList& strides, Expr offset) {
  graph::TensorType type = r.type_of(self);
  if (const auto part = graph::part_of_strides(type, sizes, strides, offset)) return part_of(r, self, *part);
  const auto others = graph::sizes_for_strides(type, strides);
  if (!others) return std::nullopt;
  type.sizes.assign(others->begin(), others->end());
  type.strides = graph::contiguous_strides(type.sizes);
  const auto part = graph::part_of_strides(type, sizes, strides, offset);
  if (!part) return std::nullopt;
  return part_of(r, view_by(r, "aten::view", "", {self, *others}), *part);
}

// as_strided addresses the storage, not the tensor, so it is recorded on the storage's base. If slices, indices and
// permutations give the same view, they are recorded instead: kernels read and write through these.
void as_strided(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor();
  graph::TensorType type = r.type_of(self);
  const Expr own_offset = r.offset_of(self);
  graph::IntList sizes = to_int_list(argument(op, stack, 1)), strides = to_int_list(argument(op, stack, 2));
  VESTA_USER_CHECK(sizes.size() == strides.size(), "as_strided: sizes and strides differ in number");
  const c10::IValue given = argument(op, stack, 3);
  Expr offset = given.isNone() ? own_offset : to_int(given);
  Alias& a = r.alias_of(self);
  Storage& s = *a.storage;
  read_memory(r, a);
  if (s.input >= 0 && !given.isNone()) offset = offset - Expr(r.begin_in_storage(s.input));
  if (sizes == type.sizes && strides == type.strides && offset == own_offset) return reply(op, stack, r.same(self));
  const graph::TensorType& base = s.base->type;
  if (base.dtype != type.dtype) VESTA_UNSUPPORTED("as_strided on a view as another type");
  if (!is_laid_out(r, s)) VESTA_UNSUPPORTED("as_strided on a tensor with gaps, or whose elements share memory");
  Expr last = offset;
  for (size_t d = 0; d < sizes.size(); ++d) last = last + (sizes[d] - Expr(1)) * strides[d];
  const Expr elements = graph::numel(base);
  const auto less = [&](Expr a, Expr b) {
    return a.is_constant() && b.is_constant() ? a.constant() < b.constant() : r.guards().less(a, b);
  };
  if (!graph::is_empty(r.guards(), sizes) && (less(offset, 0) || !less(last, elements)))
    VESTA_UNSUPPORTED("as_strided reaches beyond the tensor's own memory");
  if (!a.view && type == base && own_offset.is_constant(0))
    if (const auto shown = shown_by_strides(r, self, sizes, strides, offset)) return reply(op, stack, *shown);
  if (r.gradients && a.view) r.gradients->history.forget_edges();
  graph::Value* const whole = r.gradients && !a.view ? r.gradients->history.as_viewed(self, s.base) : s.base;
  std::vector<graph::Arg> args{whole, sizes, strides, offset};
  type.sizes = std::move(sizes);
  type.strides = std::move(strides);
  graph::Node* node = r.add_node(*op.op, args, {type});
  auto view = std::make_shared<View>(View{nullptr, op.op, std::move(args), 0, std::move(type)});
  reply(op, stack, r.view_of(self, std::move(view), node->results.at(0), offset));
}

// The result is the same memory with a pending conj bit.
template <bool ConjNegBits::* bit>
void flip(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor();
  ConjNegBits conj_neg = r.alias_of(self).conj_neg;
  conj_neg.*bit = !(conj_neg.*bit);
  reply(op, stack, r.same(self, conj_neg));
}

constexpr OperatorRow kViewRows[] = {
    {"aten::alias", alias},
    {"aten::detach", detach},
    {.name = "aten::detach_", .handler = unchanged, .drops_history = true},
    {"aten::split.Tensor", split},
    {"aten::unsafe_split.Tensor", split},
    {"aten::split_with_sizes", split_with_sizes},
    {"aten::unsafe_split_with_sizes", split_with_sizes},
    {"aten::unbind.int", unbind},
    {"aten::_reshape_alias", reshape_alias},
    {"aten::_unsafe_view", unsafe_view},
    {"aten::as_strided", as_strided},
    {"aten::_conj", flip<&ConjNegBits::conj>},
    {"aten::_neg_view", flip<&ConjNegBits::neg>},
    {.name = "aten::view.dtype", .no_autograd_view = true},
};

}  // namespace

// Gives the tensor object the alias of the view.
void change_view_in_place(Recorder&, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor();
  TracedTensorImpl* impl = traced(self);
  const bool input = !impl || (!impl->alias().view && impl->alias().storage->input >= 0);
  if (input) VESTA_UNSUPPORTED("{} changes the shape or strides of an input in place", op.handle.schema().name());
  Stack inner(stack.end() - static_cast<std::ptrdiff_t>(op.arg_count), stack.end());
  op.functional->handle.callBoxed(inner);
  TracedTensorImpl* view = traced(inner.at(0).toTensor());
  VESTA_CHECK(view, "{} gave no traced tensor", op.functional->handle.schema().name());
  if (view != impl) impl->replace(view->alias(), view->type(), view->offset());
  reply(op, stack, self);
}

std::span<const OperatorRow> view_rows() { return kViewRows; }

}  // namespace vesta::trace
