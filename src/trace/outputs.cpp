#include "trace/outputs.h"

#include <algorithm>
#include <span>
#include <unordered_map>

#include "base/check.h"
#include "graph/rules/broadcast.h"
#include "trace/operators/arguments.h"
#include "trace/recorder.h"

namespace vesta::trace {
namespace {

using graph::Output;
using graph::OutputKind;

// A result in memory that the program allocated.
struct Shown {
  graph::TensorType type;
  Expr offset;  // in elements of the type, from the start of the storage
  Storage* storage = nullptr;
  ConjNegBits conj_neg;
  bool whole = false;
  bool made_storage = false;
  size_t output = 0;
  // In a trace with gradients, as autograd sees it.
  bool requires_grad = false, is_view = false;
  at::Tensor base;  // of a view
};

// The first byte and one past the last, from the start of the storage. nullopt if a size is symbolic.
std::optional<std::pair<int64_t, int64_t>> range(const Shown& s) {
  if (!s.offset.is_constant()) return std::nullopt;
  const int64_t bytes = element_size(s.type.dtype), first = s.offset.constant();
  int64_t last = first;
  for (size_t d = 0; d < s.type.dim(); ++d) {
    if (!s.type.sizes[d].is_constant() || !s.type.strides[d].is_constant()) return std::nullopt;
    if (s.type.sizes[d].constant() == 0) return std::pair<int64_t, int64_t>{first * bytes, first * bytes};
    last += (s.type.sizes[d].constant() - 1) * s.type.strides[d].constant();
  }
  return std::pair<int64_t, int64_t>{first * bytes, (last + 1) * bytes};
}

// Whether memory with the layout of `a` holds every element of `b` at its own distance from a's first element. A fresh
// copy of `a` can then be viewed as `b`.
bool covers(Recorder& r, const Shown& a, const Shown& b) {
  if (a.whole) return true;
  if (a.type.dtype != b.type.dtype) return false;
  if (a.offset == b.offset && a.type == b.type) return true;
  const auto ra = range(a), rb = range(b);
  if (ra && rb) {
    const Expr bytes = graph::numel(a.type) * Expr(element_size(a.type.dtype));
    return ra->first <= rb->first && rb->second <= ra->second && bytes.is_constant(ra->second - ra->first) &&
           graph::is_non_overlapping_and_dense(a.type);
  }
  // Whether it is a reshaped view of the whole storage.
  const graph::TensorType& base = a.storage->base->type;
  return a.offset.is_constant(0) && graph::numel(a.type) == graph::numel(base) &&
         graph::is_contiguous(r.guards(), a.type) && graph::is_contiguous(r.guards(), base);
}

// The output of a tensor, unless it is in memory that the program allocated: then it is noted in `shown`.
Output tensor_output(Recorder& r, const at::Tensor& t, std::vector<Shown>& shown, size_t index) {
  Output out;
  TracedTensorImpl* impl = traced(t);
  if (!r.gradients && t.requires_grad()) throw NeedsGradients("needs gradients: a result requires grad");
  Alias& alias = r.alias_of(t);  // lifts a real tensor
  out.value = read_memory(r, alias);
  out.conj_neg = alias.conj_neg;
  Storage* storage = alias.storage.get();
  const graph::TensorType type = r.type_of(t);
  if (storage->input < 0) {
    Shown& s =
        shown.emplace_back(type, impl->offset(), storage, alias.conj_neg, !alias.view, alias.made_storage, index);
    if (!r.gradients) return out;
    s.requires_grad = t.requires_grad();
    s.is_view = t.is_view();
    if (s.is_view) s.base = t._base();
    return out;
  }
  out.alias = storage->input;
  if (!impl || r.is_input_fake(impl)) {
    out.kind = OutputKind::Input;
    return out;
  }
  out.kind = OutputKind::InputView;
  out.type = type;
  out.storage_offset = impl->offset();
  return out;
}

// A tensor that the program does not return, of which autograd takes results of the group as views and of which all can
// be views. Undefined: there is none.
at::Tensor base_of(Recorder& r, const std::vector<const Shown*>& group) {
  for (const Shown* s : group) {
    const TracedTensorImpl* impl = s->base.defined() ? traced(s->base) : nullptr;
    if (!impl || !s->base.requires_grad() || impl->alias().storage.get() != s->storage || impl->alias().conj_neg.any())
      continue;
    const Shown base{
        .type = impl->type(), .offset = impl->offset(), .storage = s->storage, .whole = !impl->alias().view};
    if (std::ranges::all_of(group, [&](const Shown* b) { return covers(r, base, *b); })) return s->base;
  }
  return {};
}

// Gives each storage one fresh tensor; the other results on it are views of that one, as in eager. It is the result
// that the storage was made for, else a result of which all others can be views, else the storage itself.
void place(Recorder& r, std::span<const Shown> shown, std::vector<Output>& outputs) {
  std::vector<bool> placed(shown.size(), false);
  for (size_t i = 0; i < shown.size(); ++i) {
    if (placed[i]) continue;
    Storage* storage = shown[i].storage;
    std::vector<const Shown*> group;
    for (size_t k = i; k < shown.size(); ++k) {
      if (shown[k].storage != storage) continue;
      group.push_back(&shown[k]);
      placed[k] = true;
    }
    const bool is_recorded = std::ranges::any_of(group, &Shown::requires_grad);
    const auto shows_all = [&](const Shown* a) {
      if (a->conj_neg.any()) return false;
      if (is_recorded && !a->requires_grad) return false;  // its views would have no history
      // Autograd's base of several views is a tensor that the program does not return.
      if (a->is_view && group.size() > 1) return false;
      return std::all_of(group.begin(), group.end(), [&](const Shown* b) { return a == b || covers(r, *a, *b); });
    };
    // A view that was no view in eager may not be the base: autograd would refuse writes to it.
    auto anchor =
        std::find_if(group.begin(), group.end(), [&](const Shown* a) { return a->made_storage && shows_all(a); });
    if (anchor == group.end()) anchor = std::find_if(group.begin(), group.end(), shows_all);
    Shown base{.type = storage->base->type, .offset = 0, .storage = storage, .whole = true, .output = outputs.size()};
    if (anchor != group.end()) {
      base = **anchor;
    } else if (const at::Tensor whole = is_recorded ? base_of(r, group) : at::Tensor(); whole.defined()) {
      base.type = r.type_of(whole);
      base.offset = r.offset_of(whole);
      outputs.push_back({.kind = OutputKind::Fresh, .value = read_memory(r, r.alias_of(whole)), .hidden = true});
    } else {
      outputs.push_back({.kind = OutputKind::Fresh, .value = storage->base, .hidden = true});
    }
    for (const Shown* s : group) {
      if (s->output == base.output) continue;
      Output& out = outputs[s->output];
      out.kind = OutputKind::OutputView;
      out.alias = static_cast<int>(base.output);
      out.type = s->type;
      out.storage_offset = s->offset - convert_offset(base.offset, base.type.dtype, s->type.dtype);
    }
  }
}

}  // namespace

void finish_outputs(Recorder& r, const std::vector<c10::IValue>& results) {
  std::vector<Shown> shown;
  std::vector<Output> outputs;
  for (const c10::IValue& v : results) {
    Output out;
    if (v.isTensor() && v.toTensor().defined()) {
      out = tensor_output(r, v.toTensor(), shown, outputs.size());
    } else if (v.isNone() || v.isTensor()) {
      out.kind = OutputKind::None;
    } else if (v.isInt() || v.isSymInt()) {
      out.kind = OutputKind::Integer;
      out.integer = to_int(v);
    } else {
      VESTA_UNSUPPORTED("a result of type {}", v.tagKind());
    }
    outputs.push_back(std::move(out));
  }
  place(r, shown, outputs);
  graph::Graph& g = r.graph();
  g.outputs = std::move(outputs);
  for (const auto* real : r.reals()) {
    const Storage& s = *real->memory;
    if (s.base != s.initial) g.mutations.push_back({s.input, s.base});
  }
}

namespace {

// In a trace with gradients, autograd's own kernels have recorded which traced tensors are views of each other.
std::vector<ViewRelation> recorded_relations(Recorder& r, const std::vector<c10::IValue>& results) {
  std::vector<ViewRelation> out, views;
  const auto tensor = [&](size_t i) { return results[i].isTensor() ? results[i].toTensor() : at::Tensor(); };
  for (size_t i = 0; i < results.size(); ++i) {
    const at::Tensor t = tensor(i);
    if (!t.defined() || !traced(t)) continue;
    const Storage* storage = traced(t)->alias().storage.get();
    bool shares = storage->input >= 0 && !r.is_input_fake(traced(t));
    for (size_t k = 0; k < results.size(); ++k)
      shares |= k != i && tensor(k).defined() && traced(tensor(k)) &&
                traced(tensor(k))->alias().storage.get() == storage && !tensor(k).is_same(t);
    if (shares && traced(t)->counts_apart && !t.requires_grad()) {
      out.push_back({i, ViewRelation::kCountsApart});
      continue;
    }
    if (!t.is_view()) {
      if (shares) out.push_back({i, -1});
      continue;
    }
    size_t base = 0;
    while (base < results.size() && (base == i || !tensor(base).defined() || !t._base().is_same(tensor(base)))) ++base;
    if (base < results.size())
      views.push_back({i, static_cast<int>(base)});
    else if (shares && !t.requires_grad())
      out.push_back({i, -1});
  }
  out.insert(out.end(), views.begin(), views.end());
  return out;
}

}  // namespace

std::vector<ViewRelation> view_relations(Recorder& r, const std::vector<c10::IValue>& results) {
  if (r.gradients) return recorded_relations(r, results);
  const std::vector<Output>& outputs = r.graph().outputs;
  std::unordered_map<int64_t, size_t> result_of;  // by identity
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].isTensor() && results[i].toTensor().defined())
      result_of.try_emplace(r.identity_of(results[i].toTensor()), i);
  std::vector<ViewRelation> out, views;
  for (size_t i = 0; i < results.size(); ++i) {
    const TracedTensorImpl* impl =
        results[i].isTensor() && results[i].toTensor().defined() ? traced(results[i].toTensor()) : nullptr;
    const Output& o = outputs[i];
    if (!impl || o.kind == OutputKind::Input) continue;
    if (impl->counts_apart && o.kind != OutputKind::Fresh) {
      out.push_back({i, ViewRelation::kCountsApart});
      continue;
    }
    const bool of_input = impl->base >= 0 && impl->base < TracedTensorImpl::kFirstMade;
    if (of_input && o.kind == OutputKind::InputView && impl->base == o.alias) continue;
    const auto base = of_input || impl->base < 0 ? result_of.end() : result_of.find(impl->base);
    const bool is_result = base != result_of.end() && base->second != i;
    const bool shows_result = o.kind == OutputKind::OutputView && static_cast<size_t>(o.alias) < results.size();
    if (is_result && shows_result && static_cast<size_t>(o.alias) == base->second) continue;
    if (is_result)
      views.push_back({i, static_cast<int>(base->second)});
    else if (o.kind == OutputKind::InputView || shows_result || (o.kind == OutputKind::OutputView && impl->base < 0))
      out.push_back({i, -1});
  }
  out.insert(out.end(), views.begin(), views.end());
  return out;
}

}  // namespace vesta::trace
