#include "trace/operators/operator_table.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>

#include <deque>
#include <mutex>
#include <numeric>
#include <shared_mutex>
#include <unordered_map>

#include "base/check.h"
#include "trace/operators/functional_form.h"
#include "trace/ops/rows.h"

namespace vesta::trace {
namespace {

using c10::DispatchKey;
using c10::OperatorHandle;

std::string full_name(const c10::OperatorName& n) {
  return n.overload_name.empty() ? n.name : n.name + "." + n.overload_name;
}

bool is_tensor_type(const c10::Type& t) {
  switch (t.kind()) {
    case c10::TypeKind::TensorType: return true;
    case c10::TypeKind::OptionalType: return is_tensor_type(*t.castRaw<c10::OptionalType>()->getElementType());
    case c10::TypeKind::ListType: return is_tensor_type(*t.castRaw<c10::ListType>()->getElementType());
    default: return false;
  }
}

bool mutates(const c10::Argument& a) { return a.alias_info() && a.alias_info()->isWrite(); }
bool aliases(const c10::Argument& a) { return a.alias_info() != nullptr; }

// Every overload of an operator's name, among those registered at the first call.
std::vector<OperatorHandle> overloads(const std::string& name) {
  static std::mutex mutex;
  static std::unordered_map<std::string, std::vector<c10::OperatorName>> names;
  const std::lock_guard lock(mutex);
  if (names.empty())
    for (auto& n : c10::Dispatcher::singleton().getAllOpNames()) names[n.name].push_back(n);
  std::vector<OperatorHandle> out;
  if (const auto it = names.find(name); it != names.end())
    for (const auto& n : it->second)
      if (auto h = c10::Dispatcher::singleton().findSchema(n)) out.push_back(*h);
  return out;
}

// Whether the argument describes the result of a factory. An out= tensor describes itself.
bool describes_result(const c10::Argument& a) {
  return a.kwarg_only() &&
         (a.name() == "dtype" || a.name() == "layout" || a.name() == "device" || a.name() == "pin_memory");
}

// Maps each argument of `functional` to an argument of `schema` (-1: the out= tensor decides it). Empty if `functional`
// is not its counterpart.
std::vector<int> match(const c10::FunctionSchema& schema, const c10::FunctionSchema& functional, bool out_variant) {
  std::vector<int> map;
  const auto& own = schema.arguments();
  const auto& theirs = functional.arguments();
  size_t j = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    if (out_variant && mutates(own[i])) continue;
    if (j >= theirs.size() || own[i].name() != theirs[j].name() || *own[i].type() != *theirs[j].type() ||
        mutates(theirs[j]))
      return {};
    map.push_back(static_cast<int>(i));
    ++j;
  }
  for (; out_variant && j < theirs.size() && describes_result(theirs[j]); ++j) map.push_back(-1);
  if (j != theirs.size()) return {};
  return map;
}

bool find_functional(Operator& info, const c10::FunctionSchema& schema) {
  const auto& args = schema.arguments();
  size_t fresh = 0;
  for (const auto& r : schema.returns()) fresh += !mutates(r);
  for (size_t i = 0; i < args.size(); ++i)
    if (mutates(args[i])) info.mutated.push_back(static_cast<int>(i));
  info.out_variant = !info.mutated.empty();
  for (int i : info.mutated) info.out_variant &= args[i].kwarg_only();
  const std::string& name = schema.name();
  std::vector<std::string> names;
  if (info.out_variant) {
    names = {name};
  } else if (name.back() == '_') {
    const std::string base = name.substr(0, name.size() - 1);
    names = {base, base + "_functional"};
  } else {
    names = {name + "_functional"};
  }
  for (const auto& n : names)
    for (const auto& candidate : overloads(n)) {
      const auto map = match(schema, candidate.schema(), info.out_variant);
      if (map.empty() || candidate.schema().returns().size() != fresh + info.mutated.size()) continue;
      const bool pure = std::none_of(candidate.schema().returns().begin(), candidate.schema().returns().end(), aliases);
      if (!pure) continue;
      // Numbers are drawn in the memory order of the tensor that they are drawn into.
      const bool described = std::find(map.begin(), map.end(), -1) != map.end();
      if (described && (info.composite != DispatchKey::Undefined || info.random)) continue;
      info.functional_args = map;
      info.functional = &operator_for(candidate);
      return true;
    }
  return false;
}

// The op table's schema may be one of another version of torch.
bool schema_fits(const graph::Schema& ours, const c10::FunctionSchema& theirs) {
  if (ours.args.size() != theirs.arguments().size() || ours.returns.size() != theirs.returns().size()) return false;
  for (size_t i = 0; i < ours.args.size(); ++i)
    if (ours.args[i].name != theirs.arguments()[i].name()) return false;
  return true;
}

// Whether the meta function is in Python. Such a function imports sympy and much else when it first runs.
bool has_meta_in_python(const OperatorHandle& handle) {
  return handle.hasComputedKernelForDispatchKey(DispatchKey::Meta) &&
         handle.getComputedKernelForDispatchKey(DispatchKey::Meta).debug().find(".py:") != std::string::npos;
}

void classify(Operator& info) {
  const auto& schema = info.handle.schema();
  const std::string name = full_name(info.handle.operator_name());
  info.custom = !name.starts_with("aten::");
  info.arg_count = schema.arguments().size();
  info.return_count = schema.returns().size();
  info.returns_tensors_only = info.return_count > 0;
  for (const auto& r : schema.returns()) info.returns_tensors_only &= is_tensor_type(*r.type());
  info.factory = info.returns_tensors_only;
  for (const auto& a : schema.arguments()) info.factory &= !is_tensor_type(*a.type());
  info.meta_in_python = has_meta_in_python(info.handle);
  if (info.handle.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd))
    info.composite = DispatchKey::CompositeImplicitAutograd;
  else if (info.handle.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd))
    info.composite = DispatchKey::CompositeExplicitAutograd;
  else if (info.handle.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional) &&
           !info.handle.hasKernelForDispatchKey(DispatchKey::CPU) &&
           (info.meta_in_python || !info.handle.hasKernelForDispatchKey(DispatchKey::Meta)))
    info.composite =
        DispatchKey::CompositeExplicitAutogradNonFunctional;  // view_copy and similar operators, linalg_pinv
  const bool implicit = info.composite == DispatchKey::CompositeImplicitAutograd;

  const auto treat = [&](Treatment how) { info.treatment = how; };
  const auto refuse = [&](std::string reason) {
    info.reason = std::move(reason);
    treat(Treatment::Refuse);
  };

  info.op = graph::find_op(name);
  const bool known = info.op && info.op->row;
  // The backward of attention repeats numbers: it gets the state with which they were drawn.
  info.random = info.handle.hasTag(at::Tag::nondeterministic_seeded) && !schema.argumentIndexWithName("philox_seed");
  if (known && !schema_fits(info.op->schema, schema))
    return refuse(fmt::format("{} has another signature in this version of torch", name));

  info.row = find_operator_row(name);
  if (info.row && info.row->refusal) return refuse(fmt::format("{} {}", schema.name(), info.row->refusal));
  if (info.row && (info.handler = info.row->handler)) {
    info.treatment = Treatment::Special;
    if (!info.op && !schema.is_mutable()) info.op = &graph::declare_op(toString(schema));
    return;
  }
  if (info.handle.hasTag(at::Tag::data_dependent_output) || info.handle.hasTag(at::Tag::dynamic_output_shape))
    return treat(Treatment::NeedsValue);
  const bool writes_unseen = schema.is_mutable() && !implicit && info.custom;
  if (!info.returns_tensors_only && info.composite != DispatchKey::Undefined && !writes_unseen)
    return treat(Treatment::Decompose);

  bool is_mutable = false, is_view = false;
  for (const auto& a : schema.arguments()) is_mutable |= mutates(a);
  for (size_t i = 0; i < schema.returns().size(); ++i) {
    const auto& ret = schema.returns()[i];
    info.return_alias.push_back(-1);
    if (!aliases(ret)) continue;
    for (size_t j = 0; j < schema.arguments().size(); ++j) {
      const auto& arg = schema.arguments()[j];
      if (!aliases(arg) || arg.alias_info()->beforeSets() != ret.alias_info()->beforeSets()) continue;
      info.return_alias[i] = static_cast<int>(j);
      if (!mutates(arg)) {
        is_view = true;
        info.view_source = static_cast<int>(j);
      }
      break;
    }
    is_view |= !mutates(ret);
  }

  if (is_mutable) {
    if (info.handle.hasTag(at::Tag::inplace_view)) {
      info.handler = change_view_in_place;
      info.treatment = Treatment::Special;
      std::string base = schema.name();
      base.pop_back();
      for (const auto& candidate : overloads(base))
        if (const auto map = match(schema, candidate.schema(), false);
            !map.empty() && aliases(candidate.schema().returns().at(0))) {
          info.functional = &operator_for(candidate);
          return;
        }
      return refuse(fmt::format("{} changes a tensor's metadata", name));
    }
    const bool found = find_functional(info, schema);
    const bool composite = info.composite != DispatchKey::Undefined;
    // A composite kernel resizes its out= tensor without the dispatcher.
    if (found && ((info.functional->op && info.functional->op->row) || (info.out_variant && composite)))
      return treat(Treatment::Mutate);
    if (!found && writes_unseen) {
      if (const auto form = functional_form(info.handle)) {
        info.functional = &operator_for(*form);
        info.copies_arguments = true;
        if (info.functional->treatment != Treatment::Record) return refuse(info.functional->reason);
        info.functional_args.resize(info.arg_count);
        std::iota(info.functional_args.begin(), info.functional_args.end(), 0);
        return treat(Treatment::Mutate);
      }
    }
    if (composite) return treat(Treatment::Decompose);
    if (found) return treat(Treatment::Mutate);
    return refuse(fmt::format("{} writes to its arguments and has no functional counterpart", name));
  }

  if (is_view) {
    // reshape, contiguous, to, ...: they return a view only sometimes, so ATen decides.
    if (implicit) return treat(Treatment::Decompose);
    if (!known || info.view_source < 0 || info.return_count != 1 ||
        schema.returns()[0].type()->kind() != c10::TypeKind::TensorType)
      return refuse(fmt::format("{} returns a view that Vesta does not know", name));
    return treat(Treatment::View);
  }

  if (!info.returns_tensors_only) return refuse(fmt::format("{} does not return tensors", name));
  if (!info.op) info.op = &graph::declare_op(toString(schema));
  // ATen's composite kernels are independent of the device and call only operators, so they give more to fuse than one
  // extern call. A custom operator with a meta function is opaque: it may read values.
  const bool opaque = !implicit && info.custom && info.handle.hasKernelForDispatchKey(DispatchKey::Meta);
  if (!known && !opaque && info.composite != DispatchKey::Undefined) return treat(Treatment::Decompose);
  if (!known && info.random) return refuse(fmt::format("{} draws random numbers in a way Vesta does not know", name));
  for (const auto& a : info.op->schema.args)
    if (a.type == graph::ArgType::Storage || a.type == graph::ArgType::ScalarList || a.type == graph::ArgType::Other)
      return refuse(fmt::format("{} has an argument ({}) that a graph cannot hold", name, a.name));
  treat(Treatment::Record);
}

struct Table {
  std::shared_mutex mutex;
  std::recursive_mutex building;
  std::deque<Operator> operators;
  std::unordered_map<OperatorHandle, const Operator*> by_handle;
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

}  // namespace

const Operator& operator_for(const OperatorHandle& handle) {
  Table& t = table();
  {
    const std::shared_lock lock(t.mutex);
    if (const auto it = t.by_handle.find(handle); it != t.by_handle.end()) return *it->second;
  }
  // Two threads may classify at once but may not insert twice. classify() recurses into functional counterparts.
  const std::lock_guard building(t.building);
  {
    const std::shared_lock lock(t.mutex);
    if (const auto it = t.by_handle.find(handle); it != t.by_handle.end()) return *it->second;
  }
  Operator info(handle);
  classify(info);
  const std::unique_lock lock(t.mutex);
  t.operators.push_back(std::move(info));
  t.by_handle.emplace(handle, &t.operators.back());
  return t.operators.back();
}

const Operator* find_operator(const char* name, const char* overload) {
  const auto h = c10::Dispatcher::singleton().findSchema({name, overload});
  return h ? &operator_for(*h) : nullptr;
}

}  // namespace vesta::trace
