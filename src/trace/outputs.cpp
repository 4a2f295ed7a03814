#include "trace/outputs.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "graph/ops/broadcast.h"
#include "trace/arguments.h"
#include "trace/recorder.h"

namespace vesta::trace {
namespace {

using graph::Output;
using graph::OutputKind;

struct Shown {
  graph::TensorType type;
  Expr offset;
  Storage* storage = nullptr;
  bool whole = false;
  int output = -1;
};

// The first element and the one behind the last, counted from the storage's begin; nullopt if a size is symbolic.
std::optional<std::pair<int64_t, int64_t>> range(const Shown& s) {
  if (!s.offset.is_constant()) return std::nullopt;
  int64_t last = s.offset.constant();
  for (size_t d = 0; d < s.type.dim(); ++d) {
    if (!s.type.sizes[d].is_constant() || !s.type.strides[d].is_constant()) return std::nullopt;
    if (s.type.sizes[d].constant() == 0) return std::pair<int64_t, int64_t>{0, 0};
    last += (s.type.sizes[d].constant() - 1) * s.type.strides[d].constant();
  }
  return std::pair<int64_t, int64_t>{s.offset.constant(), last + 1};
}

bool same_strides(const Shown& a, const Shown& b) { return a.type.strides == b.type.strides; }

// Whether two views with the same constant strides show no common element: the difference of their offsets is written
// in the mixed radix of the strides; a digit beyond a view's size means that they are apart.
bool apart(const Shown& a, const Shown& b) {
  if (a.type.dtype != b.type.dtype) return false;
  if (a.offset == b.offset && a.type == b.type) return false;  // one tensor twice, be it empty
  const auto ra = range(a), rb = range(b);
  if (!ra || !rb) return false;
  if (ra->second <= rb->first || rb->second <= ra->first) return true;
  if (a.type.dim() != b.type.dim() || !same_strides(a, b)) return false;
  std::vector<size_t> order(a.type.dim());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](size_t i, size_t j) { return a.type.strides[i].constant() > a.type.strides[j].constant(); });
  const Shown& low = a.offset.constant() <= b.offset.constant() ? a : b;
  int64_t rest = std::abs(b.offset.constant() - a.offset.constant());
  int64_t room = INT64_MAX;  // what the strides below may add up to without carrying
  for (size_t d : order) {
    const int64_t stride = a.type.strides[d].constant();
    const int64_t size = std::max(a.type.sizes[d].constant(), b.type.sizes[d].constant());
    if (stride <= 0 || (size - 1) * stride >= room) return false;
    room = stride;
    const int64_t digit = rest / stride;
    rest %= stride;
    if (digit >= low.type.sizes[d].constant()) return true;
  }
  return rest != 0;
}

// Memory laid out as `a` holds every element of `b` at its own distance from a's first: a fresh copy of `a` can show
// `b`.
bool covers(Recorder& r, const Shown& a, const Shown& b) {
  if (a.type.dtype != b.type.dtype) return false;
  if (a.whole) return true;
  const auto ra = range(a), rb = range(b);
  if (ra && rb) {
    const Expr elements = graph::numel(a.type);
    return ra->first <= rb->first && rb->second <= ra->second && elements.is_constant(ra->second - ra->first) &&
           graph::is_non_overlapping_and_dense(a.type);
  }
  // A reshaped view of all of the storage.
  const graph::TensorType& base = a.storage->base->type;
  return a.offset.is_constant(0) && graph::numel(a.type) == graph::numel(base) &&
         graph::is_contiguous(r.guards(), a.type) && graph::is_contiguous(r.guards(), base);
}

Output tensor_output(Recorder& r, const at::Tensor& t, std::vector<Shown>& shown, int index) {
  Output out;
  TracedTensorImpl* impl = traced(t);
  if (t.requires_grad()) VESTA_UNSUPPORTED("needs gradients: a result requires grad");
  Alias& alias = r.alias_of(t);  // lifts a real tensor
  if (impl && impl->lazy) VESTA_UNSUPPORTED("a result with a pending conjugation or negation");
  graph::Value* value = read(r, alias);
  Storage* storage = alias.storage.get();
  const graph::TensorType type = r.type_of(t);
  if (storage->input >= 0) {
    const Recorder::RealTensor* real = r.real_tensor(storage->input);
    out.alias = storage->input;
    out.value = value;
    if (!impl || r.is_input_stand_in(impl)) {
      out.kind = OutputKind::Input;
      return out;
    }
    if (type.dtype != storage->initial->type.dtype) VESTA_UNSUPPORTED("a result is a view of an input as another type");
    (void)real;
    out.kind = OutputKind::InputView;
    out.type = type;
    out.storage_offset = impl->offset();
    return out;
  }
  Shown mine{type, impl->offset(), storage, !alias.view, index};
  const bool empty = std::any_of(type.sizes.begin(), type.sizes.end(), [](Expr e) { return e.is_constant(0); });
  for (const Shown& s : shown) {
    if (s.storage != storage) continue;
    // An empty view shows no element, but of the storage it is.
    if (!(empty && s.whole && s.type.dtype == type.dtype) && apart(s, mine)) continue;
    if (!covers(r, s, mine)) VESTA_UNSUPPORTED("results that overlap in memory");
    out.kind = OutputKind::OutputView;
    out.alias = s.output;
    out.value = value;
    out.type = type;
    out.storage_offset = mine.offset - s.offset;
    return out;
  }
  shown.push_back(mine);
  out.kind = OutputKind::Fresh;
  out.value = value;
  return out;
}

}  // namespace

void finish_outputs(Recorder& r, const std::vector<c10::IValue>& results) {
  std::vector<Shown> shown;
  std::vector<Output> outputs;
  for (const c10::IValue& v : results) {
    Output out;
    if (v.isTensor() && v.toTensor().defined()) {
      out = tensor_output(r, v.toTensor(), shown, static_cast<int>(outputs.size()));
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
  graph::Graph& g = r.graph();
  g.outputs = std::move(outputs);
  for (const auto* real : r.reals()) {
    const Storage& s = *real->alias->storage;
    if (s.base != s.initial) g.mutations.push_back({s.input, s.base});
  }
}

}  // namespace vesta::trace
