#include "graph/rules/broadcast.h"

#include <algorithm>

#include "base/check.h"

namespace vesta::graph {

Sizes broadcast(Guards& g, std::span<const Expr> a, std::span<const Expr> b) {
  if (a.size() < b.size()) std::swap(a, b);
  Sizes out(a.begin(), a.end());
  const size_t offset = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    Expr& o = out[offset + i];
    if (b[i].is_constant(1) || o == b[i]) continue;
    if (o.is_constant(1)) {
      o = b[i];
      continue;
    }
    VESTA_USER_CHECK(g.equal(o, b[i]), "size {} does not match size {} at dimension {}", to_string(o), to_string(b[i]),
                     offset + i);
    if (b[i].is_constant()) o = b[i];
  }
  return out;
}

bool same_sizes(Guards& g, std::span<const Expr> a, std::span<const Expr> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](Expr x, Expr y) { return g.equal(x, y); });
}

int64_t wrap_dim(Guards& g, Expr dim, size_t ndim) {
  const int64_t n = ndim == 0 ? 1 : static_cast<int64_t>(ndim);
  int64_t d = dim.is_constant() ? dim.constant() : g.specialize(dim);
  VESTA_USER_CHECK(d >= -n && d < n, "dimension {} is out of range for {} dimensions", d, ndim);
  return d < 0 ? d + n : d;
}

std::vector<int64_t> wrap_dims(Guards& g, const IntList& dims, size_t ndim) {
  std::vector<int64_t> out;
  for (Expr d : dims) {
    const int64_t w = wrap_dim(g, d, ndim);
    VESTA_USER_CHECK(std::find(out.begin(), out.end(), w) == out.end(), "dimension {} appears twice", w);
    out.push_back(w);
  }
  return out;
}

int64_t wrap_dim(Expr dim, size_t ndim) {
  VESTA_CHECK(dim.is_constant(), "a symbolic dimension number");
  const int64_t d = dim.constant();
  return d < 0 ? d + static_cast<int64_t>(ndim == 0 ? 1 : ndim) : d;
}

Expr product(std::span<const Expr> sizes) {
  Expr n = 1;
  for (Expr s : sizes) n = n * s;
  return n;
}

bool is_empty(Guards& g, std::span<const Expr> sizes) {
  return std::any_of(sizes.begin(), sizes.end(),
                     [&](Expr s) { return s.is_constant() ? s.is_constant(0) : g.equal(s, 0); });
}

void decide_empty_sizes(Guards& g, TensorType& t, bool fresh) {
  const auto may_be_empty = [](Expr s) { return !s.is_constant() && !provably_at_least(s, 1); };
  if (std::none_of(t.sizes.begin(), t.sizes.end(), may_be_empty)) return;
  const bool contiguous = t.strides == contiguous_strides(t.sizes);
  for (Expr& s : t.sizes)
    if (may_be_empty(s) && g.equal(s, 0)) s = 0;
  if (fresh && contiguous) t.strides = contiguous_strides(t.sizes);
}

namespace {
// Sizes of derived expressions (s0 - 1) may be 1; a plain symbol never is.
bool is_one(Guards& g, Expr s) { return s.is_constant() ? s.is_constant(1) : g.equal(s, 1); }

bool steps_match(Guards& g, const TensorType& t, std::span<const int> order) {
  Expr expected = 1;
  for (int d : order) {
    if (is_one(g, t.sizes[d])) continue;
    if (t.strides[d] != expected && !g.equal(t.strides[d], expected)) return false;
    expected = expected * t.sizes[d];
  }
  return true;
}
constexpr int kLast2d[] = {1, 3, 2, 0};
constexpr int kLast3d[] = {1, 4, 3, 2, 0};
}  // namespace

bool is_contiguous(Guards& g, const TensorType& t, MemoryFormat format) {
  if (format == MemoryFormat::ChannelsLast) return t.dim() == 4 && steps_match(g, t, kLast2d);
  if (format == MemoryFormat::ChannelsLast3d) return t.dim() == 5 && steps_match(g, t, kLast3d);
  if (is_empty(g, t.sizes)) return true;
  std::vector<int> order(t.dim());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(order.size() - 1 - i);
  return steps_match(g, t, order);
}

bool is_dense(Guards& g, const TensorType& t) {
  if (is_contiguous(g, t) || is_contiguous(g, t, MemoryFormat::ChannelsLast) ||
      is_contiguous(g, t, MemoryFormat::ChannelsLast3d))
    return true;
  std::vector<int> order;
  for (size_t i = 0; i < t.dim(); ++i)
    if (!is_one(g, t.sizes[i])) order.push_back(static_cast<int>(i));
  for (size_t i = 1; i < order.size(); ++i)
    for (size_t j = i; j > 0 && g.less(t.strides[order[j]], t.strides[order[j - 1]]); --j)
      std::swap(order[j], order[j - 1]);
  return steps_match(g, t, order);
}

MemoryFormat suggest_memory_format(Guards& g, const TensorType& t) {
  // c10::is_channels_last_strides_2d: strides in the permuted order must not decrease, and shapes like N111 and NCHW
  // are excluded.
  const auto matches = [&](std::span<const int> order) {
    Expr least = 0;
    if (t.strides[1].is_constant(0)) return false;
    for (int d : order) {
      if (t.sizes[d].is_constant(0)) return false;
      if (g.less(t.strides[d], least)) return false;
      if (d == 0 && least == t.strides[1]) return false;
      least = t.strides[d];
      if (!is_one(g, t.sizes[d])) least = least * t.sizes[d];
    }
    return true;
  };
  if (t.dim() == 4 && !t.strides.empty() && matches(kLast2d)) return MemoryFormat::ChannelsLast;
  if (t.dim() == 5 && matches(kLast3d)) return MemoryFormat::ChannelsLast3d;
  return MemoryFormat::Contiguous;
}

std::vector<Expr> format_strides(std::span<const Expr> sizes, MemoryFormat format) {
  std::span<const int> order;
  if (format == MemoryFormat::ChannelsLast) order = kLast2d;
  if (format == MemoryFormat::ChannelsLast3d) order = kLast3d;
  if (order.empty()) return contiguous_strides(sizes);
  VESTA_USER_CHECK(order.size() == sizes.size(), "a channels-last format needs {} dimensions", order.size());
  std::vector<Expr> strides(sizes.size());
  Expr next = 1;
  for (int d : order) {
    strides[d] = next;
    next = next * sizes[d];  // 0 where ATen's contiguous strides treat an empty dimension as one of size 1
  }
  return strides;
}

TensorType in_format(const TensorType& t, Sizes sizes, MemoryFormat format) {
  TensorType out{.dtype = t.dtype, .sizes = std::move(sizes), .strides = {}, .device = t.device};
  out.strides = format_strides(out.sizes, format);
  return out;
}
TensorType contiguous_like(const TensorType& t, Sizes sizes) {
  return in_format(t, std::move(sizes), MemoryFormat::Contiguous);
}
TensorType contiguous_like(const TensorType& t, Sizes sizes, DType dtype) {
  TensorType out = contiguous_like(t, std::move(sizes));
  out.dtype = dtype;
  return out;
}

}  // namespace vesta::graph
