#include "trace/operators/fallback.h"

#include <ATen/core/stack.h>
#include <c10/core/GradMode.h>
#include <c10/core/ScalarType.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <exception>
#include <new>
#include <numeric>
#include <stdexcept>

#include "base/check.h"
#include "base/fault.h"
#include "graph/rules/broadcast.h"
#include "graph/rules/operands.h"
#include "graph/rules/promotion.h"
#include "interop/torch_types.h"
#include "trace/operators/arguments.h"
#include "trace/operators/literals.h"
#include "trace/operators/zero_tensors.h"
#include "trace/ops/rows.h"
#include "trace/recorder.h"
#include "trace/tensors/known_value.h"
#include "trace/tensors/overlap.h"
#include "trace/tensors/shapes.h"

namespace vesta::trace {
namespace {

using torch::jit::Stack;

c10::ArrayRef<c10::IValue> arguments(const Operator& op, const Stack& stack) {
  return c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - op.arg_count);
}

// Pushes results as the schema types them: a Tensor each, or a list.
void push_results(Recorder& r, const Operator& op, const std::vector<graph::Value*>& values, Stack& stack) {
  const auto& returns = op.handle.schema().returns();
  const auto wrap = [&](graph::Value* v) { return v ? r.fresh(v) : at::Tensor(); };
  if (returns.size() == 1 && returns[0].type()->kind() == c10::TypeKind::ListType) {
    c10::List<at::Tensor> list;
    for (graph::Value* v : values) list.push_back(wrap(v));
    stack.emplace_back(std::move(list));
    return;
  }
  const auto is_list = [](const c10::Argument& a) { return a.type()->kind() == c10::TypeKind::ListType; };
  const auto lists = std::count_if(returns.begin(), returns.end(), is_list);
  if (lists > 1) VESTA_UNSUPPORTED("{} returns several lists of tensors", op.op->name);
  VESTA_CHECK(lists ? values.size() + 1 >= returns.size() : values.size() == returns.size(), "{} gave {} results",
              op.op->name, values.size());
  auto next = values.begin();
  for (const c10::Argument& a : returns) {
    if (!is_list(a)) {
      stack.emplace_back(wrap(*next++));
      continue;
    }
    c10::List<at::Tensor> list;
    for (size_t n = values.size() + 1 - returns.size(); n > 0; --n) list.push_back(wrap(*next++));
    stack.emplace_back(std::move(list));
  }
}

// Attention draws nothing if its dropout is 0.
bool draws(const Operator& op, c10::ArrayRef<c10::IValue> boxed) {
  const auto at = op.handle.schema().argumentIndexWithName("dropout_p");
  return !at || !boxed[static_cast<size_t>(*at)].isDouble() || boxed[static_cast<size_t>(*at)].toDouble() != 0;
}

void require_castable(const at::Tensor& target, const graph::TensorType& result) {
  const c10::ScalarType from = to_scalar_type(result.dtype);
  VESTA_USER_CHECK(c10::canCast(from, target.scalar_type()),
                   "result type {} can't be cast to the desired output type {}", c10::toString(from),
                   c10::toString(target.scalar_type()));
}

// Replaces the contents of an out= tensor. An empty one takes the result's sizes.
void write_out(Recorder& r, const at::Tensor& target, graph::Value* value) {
  require_castable(target, value->type);
  const graph::TensorType type = r.type_of(target);
  if (!same_sizes(r, type.sizes, value->type.sizes)) {
    TracedTensorImpl* impl = traced(target);
    if (!impl || impl->alias().view || impl->alias().storage->input >= 0 || impl->alias().conj_neg.any() ||
        !graph::is_empty(r.guards(), type.sizes))
      VESTA_UNSUPPORTED("an out= tensor would be resized");
    graph::TensorType resized = graph::contiguous_like(type, value->type.sizes);
    resized.strides = value->type.strides;
    if (resized != value->type) value = r.emit("aten::_to_copy", {value}, {{"dtype", type.dtype}});
    auto storage = std::make_shared<Storage>();
    storage->base = value;
    impl->replace(Alias{.storage = std::move(storage), .value = value}, value->type, 0);
    return;
  }
  write_tensor(r, target, value);
}

bool converts_out(const graph::Op& op) {
  if (op.row->promote == graph::Promote::Default) {
    const auto& args = op.schema.args;
    return std::count_if(args.begin(), args.end(), [](const graph::SchemaArg& a) {
             return a.type == graph::ArgType::Tensor || a.type == graph::ArgType::Scalar;
           }) > 1;
  }
  return op.row->promote != graph::Promote::Keep && op.row->promote != graph::Promote::First;
}

c10::IValue said_by_out(const Operator& op, size_t functional_arg, const at::Tensor& out) {
  const std::string& name = op.functional->handle.schema().arguments()[functional_arg].name();
  if (name == "dtype") return out.scalar_type();
  if (name == "device") return out.device();
  return {};
}

// The dimensions from the outermost to the innermost in memory.
std::vector<int64_t> memory_order(Recorder& r, const graph::TensorType& type) {
  std::vector<int64_t> order(type.dim());
  std::iota(order.begin(), order.end(), 0);
  if (graph::is_contiguous(r.guards(), type)) return order;
  for (Expr stride : type.strides)
    if (!stride.is_constant()) VESTA_UNSUPPORTED("random numbers for a tensor whose strides are symbolic");
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return type.strides[static_cast<size_t>(a)].constant() > type.strides[static_cast<size_t>(b)].constant();
  });
  return order;
}

// Records the functional counterpart of an operator that draws numbers into a tensor of this type. Which number goes to
// which element depends on the tensor's layout, and the counterpart draws into a tensor of its own.
void record_draw(Recorder& r, const Operator& f, Stack& inner, const graph::TensorType& type) {
  const std::string& name = f.op->name;
  // A CPU draws other numbers into a tensor with gaps than into the counterpart's tensor, which has none.
  if (name == "aten::normal_functional" && type.device.type == DeviceType::CPU && !graph::is_dense(r.guards(), type))
    VESTA_UNSUPPORTED("aten::normal_ draws numbers for a tensor with gaps");
  if (name != "aten::bernoulli.p") return record(r, f, inner, &type);
  // Numbers are drawn in the order of memory, and the counterpart's tensor is contiguous.
  const std::vector<int64_t> order = memory_order(r, type);
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  inner[0] = inner[0].toTensor().permute(order);
  record(r, f, inner);
  inner.back() = inner.back().toTensor().permute(back);
}

void mutate(Recorder& r, const Operator& op, Stack& stack) {
  const size_t base = stack.size() - op.arg_count;
  refuse_overlaps(r, op, stack);
  Stack inner;
  inner.reserve(op.functional_args.size());
  for (size_t i = 0; i < op.functional_args.size(); ++i) {
    const int own = op.functional_args[i];
    inner.push_back(own >= 0 ? stack[base + own] : said_by_out(op, i, stack[base + op.mutated[0]].toTensor()));
  }
  const graph::TensorType* otherwise = nullptr;
  graph::TensorType first;
  if (!op.out_variant && stack[base + op.mutated[0]].isTensor()) {
    first = r.type_of(stack[base + op.mutated[0]].toTensor());
    otherwise = &first;
  }
  const Operator& f = *op.functional;
  // A composite kernel may itself call the in-place or out= operator that is being traced.
  const auto& within = r.in_functional_form;
  const bool is_inner = std::find(within.begin(), within.end(), &op) != within.end();
  if (f.treatment == Treatment::Special) {
    call(r, f, inner);
  } else if (op.out_variant && op.composite != c10::DispatchKey::Undefined && f.treatment == Treatment::Decompose) {
    if (is_inner) return decompose(r, op, stack);
    r.in_functional_form.push_back(&op);
    const auto leave = c10::make_scope_exit([&] { r.in_functional_form.pop_back(); });
    call(r, f, inner);
  } else if (f.random && otherwise) {
    record_draw(r, f, inner, first);
  } else {
    record(r, f, inner, otherwise);
  }

  std::vector<c10::IValue> results;
  size_t next = op.return_alias.size() -
                std::count_if(op.return_alias.begin(), op.return_alias.end(), [](int a) { return a >= 0; });
  for (int i : op.mutated) {
    const c10::IValue& target = stack[base + i];
    const c10::IValue& result = inner.at(next++);
    if (target.isTensor()) {
      graph::Value* value = r.value_of(result.toTensor());
      if (op.out_variant) {
        if (result.toTensor().is_conj())
          VESTA_UNSUPPORTED("{} leaves a pending conj bit on its out= tensor", op.handle.schema().name());
        // Most iterators convert to the dtype of the output, except most of those with one operand. Other kernels
        // refuse another dtype, or compute in it.
        const bool converts = f.op && f.op->family() == graph::Family::Pointwise && converts_out(*f.op);
        if (!converts && r.type_of(target.toTensor()).dtype != value->type.dtype)
          VESTA_UNSUPPORTED("an out= tensor has another dtype than the result");
        write_out(r, target.toTensor(), value);
      } else {
        require_castable(target.toTensor(), value->type);
        const auto type = r.type_of(target.toTensor());
        // Comparisons write 0 and 1. Operators that map complex to real numbers (abs_) are not allowed in place.
        if (is_complex(type.dtype) && is_float(value->type.dtype))
          VESTA_UNSUPPORTED("{} in place would turn complex numbers into real ones", op.handle.schema().name());
        VESTA_USER_CHECK(same_sizes(r, type.sizes, value->type.sizes),
                         "the result of {} does not have the shape of the tensor it is written to",
                         op.handle.schema().name());
        write_tensor(r, target.toTensor(), value);
      }
    } else if (target.isTensorList()) {
      const auto targets = target.toTensorVector();
      const auto contents = result.toTensorVector();
      for (size_t k = 0; k < targets.size(); ++k) write_tensor(r, targets[k], r.value_of(contents.at(k)));
    } else if (!target.isNone()) {
      VESTA_UNSUPPORTED("{} writes to an argument that is not a tensor", op.handle.schema().name());
    }
  }
  next = 0;
  for (int a : op.return_alias) results.push_back(a >= 0 ? stack[base + a] : inner.at(next++));
  stack.resize(base);
  for (auto& v : results) stack.push_back(std::move(v));
}

}  // namespace

void decompose(Recorder& r, const Operator& op, Stack& stack) {
  const bool outermost = r.source.empty();
  if (outermost) r.source = op.handle.schema().name();
  const auto restore = c10::make_scope_exit([&] {
    if (outermost) r.source.clear();
  });
  op.handle.callBoxedForDispatchKey(op.composite, stack);
}

bool same_sizes(Recorder& r, const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !r.guards().equal(a[i], b[i])) return false;
  return true;
}

// Where torch.get_default_dtype() decides in which type an operator computes, casts its operands to that type: later
// stages do not know the default.
void cast_to_default(Recorder& r, const graph::Op& op, std::vector<graph::Arg>& args) {
  const DType given = graph::default_dtype();
  if (given == DType::F32 || op.family() != graph::Family::Pointwise) return;
  const auto types = [&] { return graph::pointwise_types(*op.row, graph::NodeArgs(op.schema, args)); };
  const graph::PointwiseTypes wanted = types();
  graph::set_default_dtype(DType::F32);
  const auto restore = c10::make_scope_exit([&] { graph::set_default_dtype(given); });
  if (types().promoted == wanted.promoted) return;
  for (const graph::PointwiseOperand& o : wanted.operands)
    if (auto* v = std::get_if<graph::Value*>(&args[o.arg]); v && o.to != DType::Bool)
      args[o.arg] = r.emit("aten::_to_copy", {*v}, {{"dtype", wanted.promoted}});
}

// Refuses tensors larger than a process can address: eager raises, and the graph might not compute them.
void refuse_beyond_memory(const std::vector<graph::TensorType>& types) {
  constexpr double kMostBytes = double{1ll << 47};
  for (const graph::TensorType& t : types) {
    double bytes = static_cast<double>(element_size(t.dtype));
    for (Expr s : t.sizes) bytes *= static_cast<double>(hint(s));
    VESTA_USER_CHECK(bytes < kMostBytes, "a tensor of {} bytes is too large", bytes);
  }
}

void record(Recorder& r, const Operator& op, Stack& stack, const graph::TensorType* otherwise) {
  const auto boxed = arguments(op, stack);
  std::vector<graph::Arg> args = to_args(r, op, boxed);
  const graph::Op* target = op.op;
  if (op.random && draws(op, boxed)) {
    r.check_generator();
    ++r.draws;
  }
  place_numbers(r, target, args);
  cast_to_default(r, *target, args);
  std::vector<graph::TensorType> types;
  if (target != op.op) {
    types = graph::infer_types(*target, args, r.guards());
  } else if (otherwise && !has_rule(op) && op.return_count == 1) {
    // An in-place operator's functional counterpart may have no rule. Its result has the type of what it replaces.
    try {
      types = result_types(r, op, args, boxed);
    } catch (const Unsupported&) {
      types = {*otherwise};
    }
  } else {
    types = result_types(r, op, args, boxed);
  }
  for (auto& t : types)  // "cuda" is the current GPU
    if (t.device.type == DeviceType::CUDA && t.device.index < 0)
      t.device.index = c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice().index();
  refuse_beyond_memory(types);
  if (types.size() == 1)
    VESTA_USER_CHECK(graph::holds_parameters(*target, args, types[0].dtype), "a number that {} does not hold",
                     name(types[0].dtype));
  std::vector<bool> defined;
  for (const auto& t : types) defined.push_back(t.dtype != DType::Other);
  graph::Node* node = r.add_node(*target, std::move(args), std::move(types));
  for (size_t i = 0; i < defined.size(); ++i)
    if (!defined[i]) node->results[i] = nullptr;
  if (node->results.size() == 1) note_known(r, op, boxed, node->results[0]);
  torch::jit::drop(stack, op.arg_count);
  push_results(r, op, node->results, stack);
}

void record_view(Recorder& r, const Operator& op, Stack& stack) {
  const auto boxed = arguments(op, stack);
  const size_t source = static_cast<size_t>(op.view_source);
  const at::Tensor viewed = boxed[source].toTensor();
  std::vector<graph::Arg> args = to_args(r, op, boxed);
  if (!std::holds_alternative<graph::Value*>(args[source])) VESTA_UNSUPPORTED("a view of a number");
  Alias& alias = r.alias_of(viewed);
  args[source] = read_memory(r, alias);
  if (r.gradients) args[source] = r.gradients->history.as_viewed(viewed, std::get<graph::Value*>(args[source]));
  // The view is one of the tensor as torch sees it.
  graph::TensorType type = result_types(r, op, args, boxed).at(0);
  const graph::TensorType viewed_type = r.type_of(viewed);
  Expr offset = convert_offset(r.offset_of(viewed), viewed_type.dtype, type.dtype);
  if (op.op->row->view && viewed_type.dtype == type.dtype) {
    const std::vector<Expr> first(type.dim(), Expr(0));
    const std::vector<Expr> at = op.op->row->view(graph::NodeArgs(op.op->schema, args), type, first);
    for (size_t d = 0; d < at.size() && d < viewed_type.dim(); ++d) offset = offset + at[d] * viewed_type.strides[d];
  }
  if (alias.conj_neg.any() && viewed_type.dtype != type.dtype)
    VESTA_UNSUPPORTED("a view as another type of a tensor whose conj or neg bit is set");
  graph::Node* node = r.add_node(*op.op, args, {type});
  auto view = std::make_shared<View>(View{alias.view, op.op, std::move(args), source, std::move(type)});
  at::Tensor out = r.view_of(viewed, std::move(view), node->results.at(0), offset);
  if (op.row && op.row->no_autograd_view) traced(out)->base = -1;
  torch::jit::drop(stack, op.arg_count);
  stack.emplace_back(std::move(out));
}

void write_tensor(Recorder& r, const at::Tensor& target, graph::Value* value) {
  if (!r.gradients && !traced(target) && target.requires_grad() && c10::GradMode::is_enabled())
    throw NeedsGradients("needs gradients: a tensor that requires grad is written");
  Alias& alias = r.alias_of(target);
  if (const TracedTensorImpl* impl = traced(target); !impl || !impl->counts_apart) {
    if (alias.storage->is_given) VESTA_UNSUPPORTED("a tensor whose data the program has replaced is written");
    alias.storage->counts_writes = true;
  }
  if (r.gradients) r.gradients->history.note_write(target, value);
  graph::Value* old = read(r, alias);
  graph::TensorType want = r.type_of(target);
  if (value->type != want) value = r.add_node(graph::get_op("aten::copy"), {old, value, false}, {want})->results.at(0);
  write(r, alias, value);
}

void call(Recorder& r, const Operator& op, Stack& stack) {
  switch (op.treatment) {
    case Treatment::Record: return record(r, op, stack);
    case Treatment::View: return record_view(r, op, stack);
    case Treatment::Decompose: return decompose(r, op, stack);
    case Treatment::Mutate: return mutate(r, op, stack);
    case Treatment::Special: return op.handler(r, op, stack);
    case Treatment::NeedsValue: needs_value(op);
    case Treatment::Refuse: VESTA_UNSUPPORTED("{}", op.reason);
  }
}

// Whether a failure is Vesta's. Others are the operator's, and eager raises them as well.
static bool is_ours(const std::exception& e) {
  return dynamic_cast<const Error*>(&e) || dynamic_cast<const std::bad_alloc*>(&e) ||
         dynamic_cast<const std::logic_error*>(&e);
}

void fallback(const c10::OperatorHandle& handle, Stack* stack) {
  Recorder* r = Recorder::current();
  if (!r) VESTA_UNSUPPORTED("{} gets a traced tensor outside of its trace", handle.schema().name());
  try {
    const Operator& op = operator_for(handle);
    if (fault::any()) fault::reached("operator:" + handle.schema().name());
    r->note_grad_mode();
    if (gives_zero_tensor(*r, op, *stack)) return;
    if (r->gradients)
      r->gradients->call(op, *stack);
    else
      call(*r, op, *stack);
  } catch (const std::exception& e) {
    if (is_ours(e) && !r->failure) r->failure = std::current_exception();
    throw;
  }
}

}  // namespace vesta::trace
