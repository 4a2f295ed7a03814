#include "graph/node_equality.h"

#include <algorithm>
#include <bit>

#include "base/hash_mix.h"

namespace vesta::graph {
namespace {

struct ArgHash {
  size_t operator()(None) const { return 1; }
  size_t operator()(const Value* v) const { return std::hash<const void*>{}(v); }
  size_t operator()(bool b) const { return b; }
  size_t operator()(Expr e) const { return e.hash(); }
  size_t operator()(double d) const { return std::bit_cast<uint64_t>(d); }
  size_t operator()(std::complex<double> c) const { return mix_hash((*this)(c.real()), (*this)(c.imag())); }
  size_t operator()(const std::string& s) const { return std::hash<std::string>{}(s); }
  size_t operator()(Device d) const { return static_cast<size_t>(d.type) * 257 + static_cast<size_t>(d.index + 1); }
  template <class E>
    requires std::is_enum_v<E>
  size_t operator()(E e) const {
    return static_cast<size_t>(e);
  }
  template <class T>
  size_t operator()(const std::vector<T>& list) const {
    size_t h = list.size();
    for (const auto& x : list) h = mix_hash(h, (*this)(static_cast<T>(x)));
    return h;
  }
};

bool same(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

}  // namespace

bool same(const Arg& a, const Arg& b) {
  if (a.index() != b.index()) return false;
  if (const double* x = std::get_if<double>(&a)) return same(*x, std::get<double>(b));
  if (const auto* x = std::get_if<std::complex<double>>(&a)) {
    const auto y = std::get<std::complex<double>>(b);
    return same(x->real(), y.real()) && same(x->imag(), y.imag());
  }
  if (const auto* x = std::get_if<std::vector<double>>(&a)) {
    const auto& y = std::get<std::vector<double>>(b);
    return std::equal(x->begin(), x->end(), y.begin(), y.end(), [](double p, double q) { return same(p, q); });
  }
  return a == b;
}

bool same_results(const Node& a, const Node& b) {
  return std::ranges::equal(a.results, b.results,
                            [](const Value* x, const Value* y) { return x && y ? x->type == y->type : x == y; });
}

bool same(const Node& a, const Node& b) {
  if (a.op != b.op || a.prepacked != b.prepacked || !same_results(a, b)) return false;
  for (size_t i = 0; i < a.args().size(); ++i)
    if (!same(a.args()[i], b.args()[i])) return false;
  return true;
}

size_t hash_of(const Arg& arg) { return mix_hash(arg.index(), std::visit(ArgHash{}, arg)); }

size_t hash_of(const TensorType& type) {
  const ArgHash hash;
  size_t h = mix_hash(hash(type.dtype), hash(type.device));
  h = mix_hash(h, hash(type.sizes));
  return mix_hash(h, hash(type.strides));
}

size_t hash_of(const Node& node) {
  size_t h = std::hash<const void*>{}(node.op);
  for (const Arg& a : node.args()) h = mix_hash(h, hash_of(a));
  return h;
}

}  // namespace vesta::graph
