// Operators that are neither a plain node, a plain view, nor a functional operator with a write.
#include <ATen/core/List.h>
#include <ATen/core/stack.h>
#include <ATen/ops/_assert_async.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/dot.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/vdot.h>

#include <unordered_map>

#include "base/check.h"
#include "graph/rules/broadcast.h"
#include "interop/torch_types.h"
#include "trace/operators/arguments.h"
#include "trace/operators/fallback.h"
#include "trace/recorder.h"
#include "trace/tensors/backing.h"
#include "trace/tensors/known_value.h"
#include "trace/tensors/overlap.h"

namespace vesta::trace {
namespace {

using torch::jit::Stack;

c10::IValue argument(const Operator& op, const Stack& stack, size_t i) {
  return stack[stack.size() - op.arg_count + i];
}

void reply(const Operator& op, Stack& stack, c10::IValue result) {
  torch::jit::drop(stack, op.arg_count);
  stack.push_back(std::move(result));
}

// ---- the same contents under another tensor -----------------------------------------------------------------------

void alias(Recorder& r, const Operator& op, Stack& stack) {
  reply(op, stack, r.same(argument(op, stack, 0).toTensor()));
}

void detach(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor out = r.same(argument(op, stack, 0).toTensor());
  traced(out)->detached = true;
  traced(out)->base = -1;
  reply(op, stack, out);
}

// lift: a real tensor is lifted when it is used.
void itself(Recorder&, const Operator& op, Stack& stack) { reply(op, stack, argument(op, stack, 0)); }

void detach_in_place(Recorder&, const Operator& op, Stack& stack) { reply(op, stack, argument(op, stack, 0)); }

// A constant of the program's, which may write to it: each run has its own.
void lift_fresh_copy(Recorder& r, const Operator& op, Stack& stack) {
  reply(op, stack, r.fresh(r.emit("aten::clone", {r.value_of(argument(op, stack, 0).toTensor())})));
}

// The same, where nobody else has it already.
void lift_fresh(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor t = argument(op, stack, 0).toTensor();
  const TracedTensorImpl* impl = traced(t);
  // A literal of the program's is an input in a trace with gradients.
  const bool literal = impl && r.is_input_stand_in(impl) &&
                       r.graph().inputs[static_cast<size_t>(impl->identity)].kind == graph::InputKind::Parameter;
  if ((impl && !literal) || wrapped_number(t)) return itself(r, op, stack);
  lift_fresh_copy(r, op, stack);
  // Nobody else can change it: a number of the program's in a tensor stays a number.
  if (!impl && t.dim() == 0 && t.device().is_cpu()) r.known.emplace(r.value_of(stack.back().toTensor()), t);
}

// transpose_, squeeze_, ...: the view's, under the old object.
void inplace_view(Recorder&, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor();
  TracedTensorImpl* impl = traced(self);
  const bool input = !impl || (!impl->alias().view && impl->alias().storage->input >= 0);
  if (input)
    VESTA_UNSUPPORTED("{} gives the tensor that the caller holds another shape or strides", op.handle.schema().name());
  Stack inner(stack.end() - static_cast<std::ptrdiff_t>(op.arg_count), stack.end());
  op.functional->handle.callBoxed(inner);
  TracedTensorImpl* view = traced(inner.at(0).toTensor());
  VESTA_CHECK(view, "{} gave no traced tensor", op.functional->handle.schema().name());
  if (view != impl) impl->replace(view->alias(), view->type(), view->offset());
  reply(op, stack, self);
}

// ---- views with several results -----------------------------------------------------------------------------------

at::Tensor view_by(Recorder& r, const char* name, const char* overload, Stack args) {
  record_view(r, *find_operator(name, overload), args);
  return args.at(0).toTensor();
}

c10::IValue boxed(Recorder& r, Expr e) {
  return e.is_constant() ? c10::IValue(e.constant()) : c10::IValue(to_sym_int(r.shared_from_this(), e));
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

// ATen has found the strides of a view; view() finds the same.
void reshape_alias(Recorder& r, const Operator& op, Stack& stack) {
  Stack args{argument(op, stack, 0), argument(op, stack, 1)};
  call(r, *find_operator("aten::view", ""), args);
  reply(op, stack, args.at(0));
}

// Its schema hides that the result shares the argument's memory: kron.out writes through it.
void unsafe_view(Recorder& r, const Operator& op, Stack& stack) {
  reshape_alias(r, op, stack);
  if (TracedTensorImpl* impl = traced(stack.back().toTensor())) impl->base = -1;
}

// The elements fill the memory in the order that the strides say, in the compiled program as in eager's.
bool is_laid_out(Recorder& r, const Storage& s) {
  const graph::TensorType& base = s.base->type;
  const bool given = s.input >= 0 && s.base == s.initial;  // the caller's own memory
  return graph::is_contiguous(r.guards(), base) || graph::is_non_overlapping_and_dense(base) ||
         (given && graph::is_dense(r.guards(), base));
}

// Addresses the storage, not the tensor: recorded on the storage's base.
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
    VESTA_UNSUPPORTED("as_strided beyond the tensor's own memory");
  std::vector<graph::Arg> args{s.base, sizes, strides, offset};
  type.sizes = std::move(sizes);
  type.strides = std::move(strides);
  graph::Node* node = r.add_node(*op.op, args, {type});
  auto view = std::make_shared<View>(View{nullptr, op.op, std::move(args), 0, std::move(type)});
  reply(op, stack, r.view_of(self, std::move(view), node->results.at(0), offset));
}

// ---- writes -------------------------------------------------------------------------------------------------------

void copy_in_place(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor(), source = argument(op, stack, 1).toTensor();
  if (self.device() != source.device() && source.dim() != 0) VESTA_UNSUPPORTED("copy_ between devices");
  graph::Value* value;
  if (const auto number = wrapped_number(source)) {
    value = r.emit("aten::full", {graph::IntList{}, *number}, {{"dtype", to_dtype(source.scalar_type())}});
  } else {
    value = r.value_of(source);
  }
  refuse_overlap(r, self, source, true);
  const auto want = r.type_of(self);
  VESTA_USER_CHECK(graph::broadcast(r.guards(), want.sizes, value->type.sizes).size() == want.dim(),
                   "copy_: the source does not broadcast to the destination");
  write_tensor(r, self, value);
  reply(op, stack, self);
}

void refuse_set(Recorder&, const Operator& op, Stack&) {
  VESTA_UNSUPPORTED("{} gives a tensor other memory", op.handle.schema().name());
}

// What is in it counts: the result is added.
void refuse_out(Recorder&, const Operator& op, Stack&) {
  VESTA_UNSUPPORTED("{} reads its out= tensor", op.handle.schema().name());
}

// Dynamo writes `module.weight = module.weight.to(dtype)` this way, where nothing changes.
void set_source(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor();
  if (!argument(op, stack, 1).toTensor().is_same(self)) return refuse_set(r, op, stack);
  reply(op, stack, self);
}

// The first elements of memory that nothing else shows.
graph::Value* shrunk(Recorder& r, const Alias& alias, const graph::IntList& sizes) {
  const graph::TensorType& old = alias.storage->base->type;
  const Expr count = graph::product(sizes);
  const Expr had = graph::numel(old);
  if (alias.storage.use_count() != 1 || !graph::is_contiguous(r.guards(), old) || !count.is_constant() ||
      !had.is_constant() || count.constant() > had.constant())
    return nullptr;
  graph::Value* flat = r.emit("aten::view", {alias.storage->base, graph::IntList{had}});
  flat = r.emit("aten::slice.Tensor", {flat, Expr(0), Expr(0), count, Expr(1)});
  return r.emit("aten::clone", {r.emit("aten::view", {flat, sizes})});
}

void resize(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor();
  const auto type = r.type_of(self);
  const graph::IntList sizes = to_int_list(argument(op, stack, 1));
  if (!argument(op, stack, 2).isNone()) VESTA_UNSUPPORTED("{} into a memory format", op.handle.schema().name());
  if (sizes == type.sizes) return reply(op, stack, self);
  TracedTensorImpl* impl = traced(self);
  graph::Value* value = nullptr;
  if (impl && !impl->alias().view && impl->alias().storage->input < 0 && !impl->alias().pending.any()) {
    value = graph::is_empty(r.guards(), type.sizes)
                ? r.emit("aten::empty.memory_format", {sizes}, {{"dtype", type.dtype}, {"device", type.device}})
                : shrunk(r, impl->alias(), sizes);
  }
  if (!value) VESTA_UNSUPPORTED("{} changes a tensor's size", op.handle.schema().name());
  auto storage = std::make_shared<Storage>();
  storage->base = value;
  impl->replace(Alias{.storage = std::move(storage), .value = value}, value->type, 0);
  reply(op, stack, self);
}

void resize_as(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor();
  static const Operator* by_size = find_operator("aten::resize_", "");
  Stack inner{self};
  inner.emplace_back(argument(op, stack, 1).toTensor().sym_sizes());
  inner.push_back(argument(op, stack, 2));
  resize(r, *by_size, inner);
  reply(op, stack, self);
}

// In training the running statistics are written although the schema does not say so.
void native_batch_norm(Recorder& r, const Operator& op, Stack& stack) {
  const bool training = argument(op, stack, 5).toBool();
  const c10::IValue mean = argument(op, stack, 3), variance = argument(op, stack, 4);
  const bool tracked = !mean.isNone() && mean.toTensor().defined();
  if (!training || !tracked) return record(r, op, stack);
  static const Operator* functional = find_operator("aten::_native_batch_norm_legit_functional", "");
  if (!functional) VESTA_UNSUPPORTED("batch_norm in training in this version of torch");
  Stack inner(stack.end() - static_cast<std::ptrdiff_t>(op.arg_count), stack.end());
  record(r, *functional, inner);
  write_tensor(r, mean.toTensor(), r.value_of(inner.at(3).toTensor()));
  write_tensor(r, variance.toTensor(), r.value_of(inner.at(4).toTensor()));
  torch::jit::drop(stack, op.arg_count);
  for (size_t i = 0; i < 3; ++i) stack.push_back(inner[i]);
}

void batch_norm(Recorder& r, const Operator& op, Stack& stack) {
  const bool training = argument(op, stack, 5).toBool();
  if (!training && op.op && op.op->row) return record(r, op, stack);
  if (training && argument(op, stack, 0).toTensor().is_cuda() && !r.gradients) {
    // What ATen calls here, cuDNN's among others, writes running statistics although its schema does not say so.
    static const Operator* native = find_operator("aten::native_batch_norm", "");
    const auto first = stack.end() - static_cast<std::ptrdiff_t>(op.arg_count);
    Stack inner(first, first + static_cast<std::ptrdiff_t>(native->arg_count));
    call(r, *native, inner);
    return reply(op, stack, inner.at(0));
  }
  op.handle.callBoxedForDispatchKey(op.composite, stack);
}

void cudnn_batch_norm(Recorder& r, const Operator& op, Stack& stack) {
  const c10::IValue mean = argument(op, stack, 3);
  const bool tracked = !mean.isNone() && mean.toTensor().defined();
  if (tracked && argument(op, stack, 5).toBool()) VESTA_UNSUPPORTED("{} writes running statistics", op.op->name);
  record(r, op, stack);
}

// Outside of training it draws nothing; the noise that its kernel takes is then never read.
void rrelu(Recorder& r, const Operator& op, Stack& stack) {
  const double lower = argument(op, stack, 1).toScalar().toDouble();
  const double upper = argument(op, stack, 2).toScalar().toDouble();
  if (argument(op, stack, 3).toBool() || !(lower <= upper)) return decompose(r, op, stack);
  reply(op, stack, at::leaky_relu(argument(op, stack, 0).toTensor(), (lower + upper) / 2).contiguous());
}

// ---- the rest -----------------------------------------------------------------------------------------------------

void empty(Recorder& r, const Operator& op, Stack& stack) {
  record(r, op, stack);
  give_backing(*traced(stack.back().toTensor()));
}

void index(Recorder& r, const Operator& op, Stack& stack) {
  for (const auto& e : argument(op, stack, 1).toListRef())
    if (e.isTensor() && e.toTensor().defined() &&
        (e.toTensor().scalar_type() == at::kBool || e.toTensor().scalar_type() == at::kByte))
      throw NeedsValue("indexing with a mask needs the mask's values");
  record(r, op, stack);
}

void item(Recorder& r, const Operator& op, Stack& stack) {
  const auto number = known_number(r, argument(op, stack, 0).toTensor());
  if (!number) throw NeedsValue(fmt::format("{} needs the value of a tensor", op.handle.schema().name()));
  reply(op, stack, *number);
}

// A tensor equals itself unless it holds a NaN: that is checked when the program runs, and the one call that fails runs
// eager. Of two different tensors sizes alone can tell.
void equal(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor a = argument(op, stack, 0).toTensor(), b = argument(op, stack, 1).toTensor();
  const graph::TensorType ta = r.type_of(a), tb = r.type_of(b);
  const auto needs_value = [&](const char* why) {
    throw NeedsValue(fmt::format("{} {}", op.handle.schema().name(), why));
  };
  if (ta.device != tb.device || ta.dtype != tb.dtype) needs_value("compares tensors of two kinds");
  if (!same_sizes(r, ta.sizes, tb.sizes)) return reply(op, stack, false);
  if (!a.is_same(b) && r.value_of(a) != r.value_of(b)) needs_value("needs the values of two tensors");
  if (!is_integral(ta.dtype) && ta.dtype != DType::Bool) {
    if (r.drew_random_numbers)
      needs_value("looks for NaNs after random numbers were drawn, which eager would draw again");
    at::_assert_async(a.eq(a).all(), "a tensor that is compared with itself holds a NaN");
  }
  reply(op, stack, true);
}

// ATen's kernel reads its argument to check it; this one checks when it runs, with the same words.
void one_hot(Recorder&, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor();
  const int64_t classes = argument(op, stack, 1).toInt();
  if (classes <= 0) throw NeedsValue("one_hot without a number of classes needs the largest");
  if (self.scalar_type() != at::kLong) VESTA_UNSUPPORTED("one_hot of {}", c10::toString(self.scalar_type()));
  at::_assert_async(self.ge(0).all(), "Class values must be non-negative.");
  at::_assert_async(self.lt(classes).all(), "Class values must be smaller than num_classes.");
  reply(op, stack, self.unsqueeze(-1).eq(at::arange(classes, self.options())).to(at::kLong));
}

// ATen's kernel reads memory below the dispatcher; the differentiable form does not, and gives the same numbers.
void max_pool1d(Recorder& r, const Operator& op, Stack& stack) {
  if (graph::is_empty(r.guards(), r.type_of(argument(op, stack, 0).toTensor()).sizes))
    VESTA_UNSUPPORTED("max_pool1d of an empty tensor");
  static const Operator* with_indices = find_operator("aten::max_pool1d_with_indices", "");
  Stack inner(stack.end() - static_cast<std::ptrdiff_t>(op.arg_count), stack.end());
  inner[0] = inner[0].toTensor().contiguous();
  with_indices->handle.callBoxed(inner);
  reply(op, stack, inner.at(0));
}

// A check of contents: a call without results, which raises what eager raises.
void check_contents(Recorder& r, const Operator& op, Stack& stack) {
  const c10::ArrayRef<c10::IValue> boxed = c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - op.arg_count);
  std::vector<graph::Arg> args = to_args(r, op, boxed);
  r.add_node(*op.op, std::move(args), {});
  torch::jit::drop(stack, op.arg_count);
}

// A check of metadata that eager has just passed.
void no_effect(Recorder&, const Operator& op, Stack& stack) { torch::jit::drop(stack, op.arg_count); }

// The result is the same memory, marked.
void conj(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor();
  Pending pending = r.alias_of(self).pending;
  pending.conj = !pending.conj;
  reply(op, stack, r.same(self, pending));
}
void conj_physical(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor();
  return self.is_complex() ? record(r, op, stack) : reply(op, stack, self);
}
void neg_view(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor();
  Pending pending = r.alias_of(self).pending;
  pending.neg = !pending.neg;
  reply(op, stack, r.same(self, pending));
}

// ATen's products of conjugates, which leave the conjugation of some pending.
void dot(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor a = argument(op, stack, 0).toTensor(), b = argument(op, stack, 1).toTensor();
  if (!a.is_conj() && !b.is_conj()) return record(r, op, stack);
  reply(op, stack,
        a.is_conj() && b.is_conj() ? at::dot(a.conj(), b.conj()).conj()
        : a.is_conj()              ? at::vdot(a.conj(), b)
                                   : at::vdot(b.conj(), a));
}
void vdot(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor a = argument(op, stack, 0).toTensor(), b = argument(op, stack, 1).toTensor();
  if (!a.is_conj() && !b.is_conj()) return record(r, op, stack);
  reply(op, stack,
        a.is_conj() && b.is_conj() ? at::vdot(b.conj(), a.conj())
        : a.is_conj()              ? at::dot(a.conj(), b)
                                   : at::dot(a, b.conj()).conj());
}

// ATen solves X A = B as A^H X^H = B^H and leaves the conjugation of a complex result pending.
void lu_solve(Recorder& r, const Operator& op, Stack& stack) {
  const bool left = argument(op, stack, 3).toBool();
  record(r, op, stack);
  const at::Tensor result = stack.back().toTensor();
  if (left || !result.is_complex() || graph::is_empty(r.guards(), r.type_of(result).sizes)) return;
  stack.back() = r.same(r.fresh(r.emit("aten::conj_physical", {r.value_of(result)})), {.conj = true});
}

// CUDA's attention: the integers among its results are sizes of its operands.
void attention(Recorder& r, const Operator& op, Stack& stack) {
  const Expr queries = r.type_of(argument(op, stack, 0).toTensor()).sizes.at(2);
  const Expr keys = r.type_of(argument(op, stack, 1).toTensor()).sizes.at(2);
  record(r, op, stack);
  const size_t first = stack.size() - op.return_count;
  stack[first + 4] = boxed(r, queries);
  stack[first + 5] = boxed(r, keys);
}

}  // namespace

Handler special_handler(const std::string& name) {
  static const std::unordered_map<std::string, Handler> handlers = {
      {"inplace_view", inplace_view},
      {"aten::alias", alias},
      {"aten::detach", detach},
      {"aten::detach_", detach_in_place},
      {"aten::lift", itself},
      {"aten::lift_fresh", lift_fresh},
      {"aten::lift_fresh_copy", lift_fresh_copy},
      {"aten::split.Tensor", split},
      {"aten::unsafe_split.Tensor", split},
      {"aten::split_with_sizes", split_with_sizes},
      {"aten::unsafe_split_with_sizes", split_with_sizes},
      {"aten::unbind.int", unbind},
      {"aten::_reshape_alias", reshape_alias},
      {"aten::_unsafe_view", unsafe_view},
      {"aten::as_strided", as_strided},
      {"aten::copy_", copy_in_place},
      {"aten::set_", refuse_set},
      {"aten::set_.source_Storage", refuse_set},
      {"aten::set_.source_Storage_storage_offset", refuse_set},
      {"aten::set_.source_Tensor", set_source},
      {"aten::set_.source_Tensor_storage_offset", refuse_set},
      {"aten::_compute_linear_combination.out", refuse_out},
      {"aten::resize_", resize},
      {"aten::resize_as_", resize_as},
      {"aten::native_batch_norm", native_batch_norm},
      {"aten::batch_norm", batch_norm},
      {"aten::cudnn_batch_norm", cudnn_batch_norm},
      {"aten::rrelu", rrelu},
      {"aten::empty.memory_format", empty},
      {"aten::index.Tensor", index},
      {"aten::max_pool1d", max_pool1d},
      {"aten::_assert_tensor_metadata", no_effect},
      {"aten::_linalg_check_errors", check_contents},
      {"aten::_assert_async.msg", check_contents},
      {"aten::item", item},
      {"aten::_local_scalar_dense", item},
      {"aten::equal", equal},
      {"aten::one_hot", one_hot},
      {"aten::_conj", conj},
      {"aten::dot", dot},
      {"aten::linalg_lu_solve", lu_solve},
      {"aten::vdot", vdot},
      {"aten::_neg_view", neg_view},
      {"aten::conj_physical", conj_physical},
      {"aten::_scaled_dot_product_flash_attention", attention},
      {"aten::_scaled_dot_product_cudnn_attention", attention},
  };
  const auto it = handlers.find(name);
  return it == handlers.end() ? nullptr : it->second;
}

}  // namespace vesta::trace
