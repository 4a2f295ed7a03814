// Replaces attention on a CPU by two products and a softmax between them, which kernels compute. The softmax's kernel
// scales and masks the scores. The last kernel divides by the sums of the weights, and stores in the library's memory
// order. The products read queries, keys and values where they are, so no kernel copies heads, nor keys that several
// heads share. Where the scores do not fit the caches, the queries are divided into blocks, which are computed one
// after another. A causal block leaves out keys that come after all its queries.
//
// The library's kernel is FlashAttention. Its time divided by ours, measured with AVX-512, two cores and heads of 64
// elements: 64 to 197 queries and keys of 6 to 12 heads 1.5 to 1.9, 256 1.23, 512 1.14 (causal 1.46), 8 sequences of
// 128 with 12 heads 1.26. From 1024 queries on it is about 1, and the pass leaves the call as it is. With BF16: 64 to
// 512 queries 1.9 to 2.4 (causal 2.6), 1024 and 1500 queries 1.7 to 2.0.
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

// query [batch, shared * group, queries, size], keys and values [batch, shared, keys, size]. `group` neighbouring heads
// have the same keys.
struct Attention {
  Value *query = nullptr, *keys = nullptr, *values = nullptr, *mask = nullptr;
  Expr batch, shared, group, queries;
  int64_t count = 0, size = 0;  // of the keys, and of each of them
  int64_t blocks = 1;           // of queries
  bool causal = false;

  Sizes heads() const { return {batch, shared, group}; }
};

std::optional<Attention> find(const Graph& graph, Node* n, const PassContext& context) {
  if (!is_op(n, "aten::_scaled_dot_product_flash_attention_for_cpu") || n->prepacked || !is_plain_attention(graph, *n))
    return std::nullopt;
  Attention a{n->input(0), n->input(1), n->input(2), added_mask(*n)};
  const TensorType &q = a.query->type, &k = a.keys->type, &v = a.values->type;
  const TensorType cpu{.dtype = q.dtype};
  for (const TensorType* t : {&q, &k, &v})
    if (t->dim() != 4 || t->dtype != q.dtype || t->device != cpu.device) return std::nullopt;
  if (k.sizes != v.sizes || k.sizes[0] != q.sizes[0] || k.sizes[1] != q.sizes[1] || k.sizes[3] != q.sizes[3] ||
      !k.sizes[2].is_constant() || !k.sizes[3].is_constant())
    return std::nullopt;
  a.batch = q.sizes[0], a.shared = q.sizes[1], a.group = 1, a.queries = q.sizes[2];
  a.count = k.sizes[2].constant(), a.size = k.sizes[3].constant();
  a.causal = n->named().boolean("is_causal");
  Value *const keys = repeated_heads(a.keys), *const values = repeated_heads(a.values);
  if (keys && values && keys->type.sizes == values->type.sizes && keys->type.sizes[1].is_constant() &&
      q.sizes[1].is_constant()) {
    a.keys = keys, a.values = values;
    a.shared = keys->type.sizes[1];
    a.group = q.sizes[1].constant() / a.shared.constant();
  }
  for (const Expr e : {a.batch, q.sizes[1], a.queries})
    if (!provably_at_least(e, 1)) return std::nullopt;
  const int64_t queries = hint(a.queries), heads = hint(a.batch) * hint(q.sizes[1]);
  const int64_t bytes = heads * queries * a.count * element_size(DType::F32);
  a.blocks = (bytes + context.cache_bytes - 1) / context.cache_bytes;
  const bool divides = a.queries.is_constant() && context.vector_bytes >= kVectorOfBlocks;
  if (a.count == 0 || a.size == 0 ||
      a.blocks > std::min(q.dtype == DType::F32 ? kMostBlocks : kMostBlocksOfBf16, divides ? queries : 1))
    return std::nullopt;
  const int64_t rows = queries / a.blocks;
  if (!context.computes_product(q.dtype, rows, a.count, a.size) ||
      !context.computes_product(q.dtype, rows, a.size, a.count) || !has_whole_steps(q.dtype, a.size))
    return std::nullopt;
  if (a.mask) {
    const TensorType& t = a.mask->type;
    if ((t.dtype != DType::F32 && t.dtype != q.dtype) || t.device != cpu.device || t.dim() < 2 ||
        !expands_to(t, Sizes{a.batch, q.sizes[1], a.queries, Expr(a.count)}))
      return std::nullopt;
  }
  return a;
}

// Queries from `begin` on, which see so many keys.
struct Block {
  Expr begin, queries;
  int64_t keys = 0;
};

std::vector<Block> blocks_of(const Attention& a) {
  if (a.blocks == 1) return {{0, a.queries, a.count}};
  std::vector<Block> out;
  const int64_t all = a.queries.constant(), each = (all + a.blocks - 1) / a.blocks;
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

// [batch, shared, group, queries of the block, size]
Value* attention(Builder& b, const Node& n, const Attention& a, const Block& block) {
  Value* const keys = b("aten::transpose.int", {for_groups(b, a, a.keys, block.keys), Expr(3), Expr(4)});
  Value* const queries = by_groups(b, a, slice(b, a.query, 2, block.begin, block.queries));
  Value* scores = product(b, queries, keys);
  if (const double scale = attention_scale(n, a.size); scale != 1) scores = b("aten::mul.Scalar", {scores, scale});
  if (a.causal) scores = hide_later(b, block, scores);
  if (a.mask) {
    Value* mask = b("aten::expand", {a.mask, IntList{a.batch, a.shared * a.group, a.queries, Expr(a.count)}});
    mask = slice(b, slice(b, mask, 2, block.begin, block.queries), 3, 0, block.keys);
    scores = b("aten::add.Tensor", {scores, opmath(b, by_groups(b, a, mask))});
  }
  const SoftmaxParts softmax = softmax_parts(b, scores, 4, /*masked=*/a.mask != nullptr);
  const DType type = a.query->type.dtype;
  Value* const sums = product(b, cast(b, softmax.powers, type), for_groups(b, a, a.values, block.keys));
  return cast(b, b("aten::div.Tensor", {sums, softmax.total}), type);
}

Value* attention(Builder& b, const Node& n, const Attention& a) {
  std::vector<Value*> parts;
  for (const Block& block : blocks_of(a)) parts.push_back(attention(b, n, a, block));
  Value* const out = parts.size() == 1 ? parts[0] : b("aten::cat", {parts, Expr(3)});
  // In the memory order of the call's result, of which this is a view.
  const std::vector<Expr>& strides = n.results[0]->type.strides;
  out->type.strides = {strides[0], strides[1] * a.group, strides[1], strides[2], strides[3]};
  return reshaped(b, out, n.results[0]->type.sizes);
}

}  // namespace

bool write_attention_products(Graph& graph, const PassContext& context) {
  if (!context.inference || !context.computes_product) return false;
  Rewriter rewriter(graph, context);
  for (Node *n = graph.first(), *next = nullptr; n; n = next) {
    next = n->next;
    const std::optional<Attention> a = find(graph, n, context);
    if (!a) continue;
    if (!rewriter.may()) break;
    Builder b(graph, n);
    b.source = n->source;
    std::vector<Value*> results(n->results.size(), nullptr);
    results[0] = attention(b, *n, *a);
    rewriter.substitute(n->results[0], finish(b, *n, std::move(results))[0]);
    graph.erase(n);
  }
  return rewriter.changed();
}

}  // namespace vesta::graph
