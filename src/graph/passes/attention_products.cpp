// Replaces attention on a CPU by two products and a softmax between them, which kernels compute. The softmax's kernel
// scales and masks the scores. The last kernel divides by the sums of the weights, and stores in the library's memory
// order. The products read queries, keys and values where they are, so no kernel copies heads, nor keys that several
// heads share. Where the scores do not fit the caches, the queries are divided into blocks, which are computed one
// after another. A causal block leaves out keys that come after all its queries.
//
// The derivative is five products. It computes the weights again, of the scores and the logarithms of their sums, which
// the forward pass saves as the library does. Where two matrices of all queries and keys do not fit the caches, the
// sequences or the heads are divided into parts.
//
// The library's kernel is FlashAttention. Its time divided by ours, measured with AVX-512, two cores and heads of 64
// elements: 64 to 197 queries and keys of 6 to 12 heads 1.5 to 1.9, 256 1.23, 512 1.14 (causal 1.46), 8 sequences of
// 128 with 12 heads 1.26. From 1024 queries on it is about 1, and the pass leaves the call as it is. With BF16: 64 to
// 512 queries 1.9 to 2.4 (causal 2.6), 1024 and 1500 queries 1.7 to 2.0.
//
// The same ratio for derivatives, two cores: F32 1.2 to 1.5 (AVX2 1.0 to 1.9), BF16 1.8 (512 queries) to 4, F16 9 and
// more. On one core F32 is 1.1 to 1.2. With 16 threads of a CPU with AMX, F32 is 1.2 to 2.3 and BF16 1.5 to 7. There,
// the library computes a BF16 forward pass as fast as the kernels, and faster where the scores leave the caches.
#include <algorithm>
#include <limits>

#include "graph/passes/attention.h"
#include "graph/passes/panels.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {
namespace {

constexpr int64_t kMostBlocks = 8, kMostBlocksOfBf16 = 32;
constexpr int64_t kVectorOfBlocks = 64;  // bytes; with shorter vectors, blocks take longer than the library
constexpr int64_t kKeyParts = 4;         // a causal block reads one to four quarters of the keys, to share kernels
constexpr int64_t kLeastOfBlocks = 512;  // queries of a causal call that are divided even if the scores fit
// All scores of a forward pass take at most this memory, except those of BF16. With 16 threads the library takes as
// long as the kernels for 50 MB, and 0.7 of their time for 200 MB.
constexpr int64_t kMostBytes = int64_t{64} << 20;
constexpr int64_t kMostParts = 16;  // of a derivative
// Queries of a causal derivative. With more, the library is faster: it leaves out the keys after each query.
constexpr int64_t kMostCausal = 768;

// query [batch, shared * group, queries, size], keys and values [batch, shared, keys, size]. `group` neighbouring heads
// have the same keys.
struct Attention {
  Value *query = nullptr, *keys = nullptr, *values = nullptr, *mask = nullptr;
  Expr batch, shared, group, queries;
  int64_t count = 0, size = 0;  // of the keys, and of each of them
  int64_t bytes = 0;            // of all scores
  int64_t parts = 1;            // the scores are computed in so many parts, one after another
  bool causal = false;

  Sizes heads() const { return {batch, shared, group}; }
};

// The operands of a call, or of its derivative, whose products kernels compute.
std::optional<Attention> find(const Node& n, const PassContext& context) {
  const NodeArgs args = n.named();
  if (n.prepacked || args.number("dropout_p") != 0) return std::nullopt;
  Attention a{value_of(args.get("query")), value_of(args.get("key")), value_of(args.get("value")), added_mask(n)};
  const TensorType &q = a.query->type, &k = a.keys->type, &v = a.values->type;
  const TensorType cpu{.dtype = q.dtype};
  for (const TensorType* t : {&q, &k, &v})
    if (t->dim() != 4 || t->dtype != q.dtype || t->device != cpu.device) return std::nullopt;
  if (k.sizes != v.sizes || k.sizes[0] != q.sizes[0] || k.sizes[1] != q.sizes[1] || k.sizes[3] != q.sizes[3] ||
      !k.sizes[2].is_constant() || !k.sizes[3].is_constant())
    return std::nullopt;
  a.batch = q.sizes[0], a.shared = q.sizes[1], a.group = 1, a.queries = q.sizes[2];
  a.count = k.sizes[2].constant(), a.size = k.sizes[3].constant();
  a.causal = args.boolean("is_causal");
  Value *const keys = repeated_heads(a.keys), *const values = repeated_heads(a.values);
  if (keys && values && keys->type.sizes == values->type.sizes && keys->type.sizes[1].is_constant() &&
      q.sizes[1].is_constant()) {
    a.keys = keys, a.values = values;
    a.shared = keys->type.sizes[1];
    a.group = q.sizes[1].constant() / a.shared.constant();
  }
  for (const Expr e : {a.batch, q.sizes[1], a.queries})
    if (!provably_at_least(e, 1)) return std::nullopt;
  if (a.count == 0 || a.size == 0 || !has_whole_steps(q.dtype, a.size)) return std::nullopt;
  const int64_t heads = hint(a.batch) * hint(q.sizes[1]);
  a.bytes = heads * hint(a.queries) * a.count * element_size(DType::F32);
  a.parts = (a.bytes + context.cache_bytes - 1) / context.cache_bytes;
  if (a.mask) {
    const TensorType& t = a.mask->type;
    if ((t.dtype != DType::F32 && t.dtype != q.dtype) || t.device != cpu.device || t.dim() < 2 ||
        !expands_to(t, Sizes{a.batch, q.sizes[1], a.queries, Expr(a.count)}))
      return std::nullopt;
  }
  return a;
}

// Finds a call of the forward pass. Its parts are blocks of queries.
std::optional<Attention> find_forward(const Node& n, const PassContext& context) {
  if (!is_op(&n, "aten::_scaled_dot_product_flash_attention_for_cpu")) return std::nullopt;
  auto a = find(n, context);
  if (!a) return std::nullopt;
  const DType type = a->query->type.dtype;
  const int64_t queries = hint(a->queries);
  const bool divides = a->queries.is_constant() && context.vector_bytes >= kVectorOfBlocks;
  const bool is_bf16 = type == DType::BF16, in_matrices = is_bf16 && context.matrices;
  if (is_bf16 ? in_matrices && 2 * a->bytes > context.cache_bytes : a->bytes > kMostBytes) return std::nullopt;
  if (a->causal && divides && queries >= kLeastOfBlocks && !in_matrices) a->parts = std::max(a->parts, kKeyParts);
  if (a->parts > std::min(type == DType::F32 ? kMostBlocks : kMostBlocksOfBf16, divides ? queries : 1))
    return std::nullopt;
  const int64_t rows = queries / a->parts;
  if (!context.computes_product(type, rows, a->count, a->size) ||
      !context.computes_product(type, rows, a->size, a->count))
    return std::nullopt;
  return a;
}

bool has_parts(Expr dim, int64_t parts) { return dim.is_constant() && dim.constant() >= parts; }

std::optional<Attention> find_derivative(const Node& n, const PassContext& context) {
  if (!is_op(&n, "aten::_scaled_dot_product_flash_attention_for_cpu_backward")) return std::nullopt;
  auto a = find(n, context);
  if (!a || a->parts > kMostParts || (a->causal && hint(a->queries) > kMostCausal) ||
      (a->parts > 1 && !has_parts(a->batch, a->parts) && !has_parts(a->shared, a->parts)))
    return std::nullopt;
  const DType type = a->query->type.dtype;
  const int64_t queries = hint(a->queries);
  if (!context.computes_product(type, queries, a->count, a->size) ||
      !context.computes_product(type, queries, a->size, a->count) ||
      !context.computes_product(type, a->count, a->size, queries))  // a sum over the queries
    return std::nullopt;
  return a;
}

// Queries from `begin` on, which see so many keys.
struct Block {
  Expr begin, queries;
  int64_t keys = 0;
};

std::vector<Block> blocks_of(const Attention& a) {
  if (a.parts == 1) return {{0, a.queries, a.count}};
  std::vector<Block> out;
  const int64_t all = a.queries.constant(), each = (all + a.parts - 1) / a.parts;
  const int64_t part = (a.count + kKeyParts - 1) / kKeyParts;
  for (int64_t begin = 0; begin < all; begin += each) {
    const int64_t end = std::min(all, begin + each);
    out.push_back({begin, end - begin, a.causal ? std::min(a.count, (end + part - 1) / part * part) : a.count});
  }
  return out;
}

Value* slice(Builder& b, Value* v, int64_t dim, Expr begin, Expr size) {
  if (v->type.sizes[static_cast<size_t>(dim)] == size) return v;
  return b("aten::slice.Tensor", {v, Expr(dim), begin, begin + size, Expr(1)});
}

// [batch, shared, group] and two more dimensions, as a view of a tensor [batch, heads, ...].
Value* by_groups(Builder& b, const Attention& a, Value* v) {
  Sizes sizes = a.heads();
  sizes.insert(sizes.end(), v->type.sizes.end() - 2, v->type.sizes.end());
  return reshaped(b, v, sizes);
}

// The strides of such a view, from those of the tensor: values are computed in the memory order of a call's results.
std::vector<Expr> by_groups(const Attention& a, const std::vector<Expr>& strides) {
  std::vector<Expr> out = {strides[0], strides[1] * a.group, strides[1]};
  out.insert(out.end(), strides.begin() + 2, strides.end());
  return out;
}

// Keys or values, which each head of a group shows.
Value* for_groups(Builder& b, const Attention& a, Value* v, int64_t count) {
  if (v->type.dim() == 4) v = b("aten::unsqueeze", {v, Expr(2)});
  v = slice(b, v, 3, 0, count);
  return b("aten::expand", {v, IntList{a.batch, a.shared, a.group, Expr(count), Expr(a.size)}});
}

// Hides the keys that come after the query.
Value* hide_later(Builder& b, const Block& block, Value* scores) {
  const auto places = [&](Expr begin, Expr end) {
    return b("aten::arange.start_step", {begin, end, Expr(1)},
             {{"dtype", DType::I64}, {"device", scores->type.device}});
  };
  Value* const query = b("aten::unsqueeze", {places(block.begin, block.begin + block.queries), Expr(1)});
  Value* const later = b("aten::lt.Tensor", {query, places(0, block.keys)});
  return b("aten::masked_fill.Scalar", {scores, later, -std::numeric_limits<double>::infinity()});
}

// The product in F32.
Value* product(Builder& b, Value* x, Value* y) {
  return b(x->type.dtype == DType::F32 ? "aten::matmul" : "vesta::matmul_f32", {x, y});
}

// [batch, heads, queries, keys]
Value* whole_mask(Builder& b, const Attention& a) {
  return b("aten::expand", {a.mask, IntList{a.batch, a.shared * a.group, a.queries, Expr(a.count)}});
}

// The scaled and masked scores of a block: [batch, shared, group, queries, keys].
Value* scores_of(Builder& b, const Node& n, const Attention& a, const Block& block) {
  Value* const keys = b("aten::transpose.int", {for_groups(b, a, a.keys, block.keys), Expr(3), Expr(4)});
  Value* const queries = by_groups(b, a, slice(b, a.query, 2, block.begin, block.queries));
  Value* scores = product(b, queries, keys);
  if (const double scale = attention_scale(n, a.size); scale != 1) scores = b("aten::mul.Scalar", {scores, scale});
  if (a.causal) scores = hide_later(b, block, scores);
  if (a.mask) {
    Value* const mask = slice(b, slice(b, whole_mask(b, a), 2, block.begin, block.queries), 3, 0, block.keys);
    scores = b("aten::add.Tensor", {scores, opmath(b, by_groups(b, a, mask))});
  }
  return scores;
}

// The results of a block: weighted means of values [batch, shared, group, queries, size], and logarithms of the sums of
// exponentials [batch, shared, group, queries].
struct Result {
  Value *out = nullptr, *logarithms = nullptr;
};

Result attention(Builder& b, const Node& n, const Attention& a, const Block& block, bool logarithms) {
  const SoftmaxParts softmax = softmax_parts(b, scores_of(b, n, a, block), 4, /*masked=*/a.mask != nullptr);
  const DType type = a.query->type.dtype;
  Value* const sums = product(b, cast(b, softmax.powers, type), for_groups(b, a, a.values, block.keys));
  Result r{cast(b, b("aten::div.Tensor", {sums, softmax.total}), type)};
  if (logarithms) {
    const auto squeezed = [&](Value* v) { return b("aten::squeeze.dim", {v, Expr(4)}); };
    r.logarithms = b("aten::add.Tensor", {squeezed(softmax.most), b("aten::log", {squeezed(softmax.total)})});
  }
  return r;
}

// The values for the call's results.
std::vector<Value*> attention(Builder& b, const Graph& graph, const Node& n, const Attention& a) {
  const bool logarithms = n.results[1] && graph.is_used(n.results[1]);
  std::vector<Value*> outs, sums;
  for (const Block& block : blocks_of(a)) {
    const Result r = attention(b, n, a, block, logarithms);
    outs.push_back(r.out);
    if (logarithms) sums.push_back(r.logarithms);
  }
  const auto joined = [&](const std::vector<Value*>& parts) {
    return parts.size() == 1 ? parts[0] : b("aten::cat", {parts, Expr(3)});
  };
  Value* const out = joined(outs);
  out->type.strides = by_groups(a, n.results[0]->type.strides);
  std::vector<Value*> results(n.results.size(), nullptr);
  results[0] = reshaped(b, out, n.results[0]->type.sizes);
  if (logarithms) {
    Value* const all = joined(sums);
    all->type.strides = by_groups(a, n.results[1]->type.strides);
    results[1] = reshaped(b, all, n.results[1]->type.sizes);
  }
  return finish(b, n, std::move(results));
}

// The operands of a derivative for some sequences or some heads.
struct Part {
  Attention attention;
  Value *tangent = nullptr, *out = nullptr, *sums = nullptr;
};

// The parts are sequences where there are enough of them, and heads otherwise.
std::vector<Part> parts_of(Builder& b, const Node& n, const Attention& a) {
  const NodeArgs args = n.named();
  const auto operand = [&](std::string_view name) { return value_of(args.get(name)); };
  const Part all{a, operand("grad_out"), operand("out"), operand("logsumexp")};
  if (a.parts == 1) return {all};
  const bool sequences = has_parts(a.batch, a.parts);
  const int64_t dim = sequences ? 0 : 1, count = (sequences ? a.batch : a.shared).constant();
  const int64_t each = (count + a.parts - 1) / a.parts, group = sequences ? 1 : a.group.constant();
  Value* const mask = a.mask ? whole_mask(b, a) : nullptr;
  std::vector<Part> out;
  for (int64_t begin = 0; begin < count; begin += each) {
    const int64_t size = std::min(each, count - begin);
    const auto of_keys = [&](Value* v) { return slice(b, v, dim, begin, size); };
    const auto of_queries = [&](Value* v) { return slice(b, v, dim, begin * group, size * group); };
    Part p{a, of_queries(all.tangent), of_queries(all.out), of_queries(all.sums)};
    p.attention.query = of_queries(a.query);
    p.attention.keys = of_keys(a.keys);
    p.attention.values = of_keys(a.values);
    if (mask) p.attention.mask = of_queries(mask);
    (sequences ? p.attention.batch : p.attention.shared) = size;
    out.push_back(p);
  }
  return out;
}

// The gradients of queries, keys and values. With weights W = softmax(S), values V, the tangent T and the result O,
// that of V is W' T, and that of S is W * (T V' - the sum of T * O over a head) (Dao et al., FlashAttention, 2022,
// appendix B.2).
std::vector<Value*> derivative(Builder& b, const Node& n, const Part& part) {
  const Attention& a = part.attention;
  const DType type = a.query->type.dtype;
  const auto turned = [&](Value* v) { return b("aten::transpose.int", {v, Expr(3), Expr(4)}); };
  Value* const tangent = by_groups(b, a, part.tangent);
  Value* const sums = reshaped(b, part.sums, {a.batch, a.shared, a.group, a.queries, 1});
  Value* const weights = b("aten::exp", {b("aten::sub.Tensor", {scores_of(b, n, a, {0, a.queries, a.count}), sums})});
  Value* const products = b("aten::mul.Tensor", {opmath(b, tangent), opmath(b, by_groups(b, a, part.out))});
  Value* const of_weights = product(b, tangent, turned(for_groups(b, a, a.values, a.count)));
  Value* of_scores = b("aten::sub.Tensor", {of_weights, sum_keeping(b, products, {4})});
  of_scores = b("aten::mul.Tensor", {weights, of_scores});
  if (const double scale = attention_scale(n, a.size); scale != 1)
    of_scores = b("aten::mul.Scalar", {of_scores, scale});
  of_scores = cast(b, of_scores, type);
  std::vector<Value*> results(3, nullptr);
  if (n.results[0]) results[0] = product(b, of_scores, for_groups(b, a, a.keys, a.count));
  if (n.results[1]) results[1] = product(b, turned(of_scores), by_groups(b, a, a.query));
  if (n.results[2]) results[2] = product(b, turned(cast(b, weights, type)), tangent);
  for (Value*& v : results)
    if (v) v = cast(b, v, type);
  return results;
}

std::vector<Value*> derivative(Builder& b, const Node& n, const Attention& a) {
  std::vector<std::vector<Value*>> parts;
  for (const Part& p : parts_of(b, n, a)) parts.push_back(derivative(b, n, p));
  std::vector<Value*> results(3, nullptr);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!n.results[i]) continue;
    std::vector<Value*> of_parts;
    for (const auto& p : parts) of_parts.push_back(p[i]);
    Value* const v =
        of_parts.size() == 1 ? of_parts[0] : b("aten::cat", {of_parts, Expr(has_parts(a.batch, a.parts) ? 0 : 1)});
    v->type.strides = by_groups(a, n.results[i]->type.strides);
    results[i] = reshaped(b, v, n.results[i]->type.sizes);
  }
  return finish(b, n, std::move(results));
}

}  // namespace

bool write_attention_products(Graph& graph, const PassContext& context) {
  if (!context.computes_product) return false;
  Rewriter rewriter(graph, context);
  for (Node *n = graph.first(), *next = nullptr; n; n = next) {
    next = n->next;
    const std::optional<Attention> forward = find_forward(*n, context);
    const std::optional<Attention> backward = forward ? std::nullopt : find_derivative(*n, context);
    if (!forward && !backward) continue;
    if (!rewriter.may()) break;
    Builder b(graph, n);
    b.source = n->source;
    const std::vector<Value*> made = forward ? attention(b, graph, *n, *forward) : derivative(b, *n, *backward);
    for (size_t i = 0; i < made.size(); ++i)
      if (n->results[i] && made[i]) rewriter.substitute(n->results[i], made[i]);
    graph.erase(n);
  }
  return rewriter.changed();
}

}  // namespace vesta::graph
