// Pads the operands of large products in half types whose rows do not begin at multiples of 16 bytes in memory, on a
// GPU: the logits of a vocabulary of 50257 words, and both products of their backward pass. cuBLAS reads such operands
// two bytes at a time: 4096 x 768 times 768 x 50257 in bf16 took 3.3 ms on an H100, and 0.4 ms with 50264 columns.
// Zeros are added where the product sums, and the rows and columns of the result that come from padding are cut off.
// Method: as torch._inductor.fx_passes.pad_mm.
#include <array>

#include "graph/passes/library.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {
namespace {

constexpr int64_t kElements = 8;  // of 16 bytes
// Measured on an H100 for the products above, and a part of what its memory reaches.
constexpr double kUnalignedFlops = 95e12, kAlignedFlops = 600e12, kBytesPerSecond = 2e12;
constexpr double kKernels = 10e-6;  // seconds that the kernels which pad and cut take at least

enum Dim : uint8_t { Rows, Columns, Inner };

// An operand's two dimensions, as the product names them.
struct Operand {
  Value* value = nullptr;
  std::array<Dim, 2> dims{};
  bool transposed = false;  // its first dimension has stride 1
  int64_t row_stride = 0;
};

struct Product {
  Node* node = nullptr;
  std::array<Operand, 2> operands;
  Value* bias = nullptr;
  std::array<int64_t, 3> sizes{};    // by Dim; Rows of all batches
  std::array<int64_t, 3> padding{};  // by Dim

  bool is_linear() const { return is_op(node, "aten::linear"); }
};

std::optional<int64_t> constant(Expr e) { return e.is_constant() ? std::optional(e.constant()) : std::nullopt; }

std::optional<Operand> operand(Value* v, Dim first, Dim second) {
  const TensorType& t = v->type;
  Operand o{v, {first, second}};
  const size_t d = t.dim();
  if (d > 2 && !is_contiguous(t)) return std::nullopt;
  o.transposed = d == 2 && t.strides[0].is_constant(1) && !t.strides[1].is_constant(1);
  if (!o.transposed && !t.strides[d - 1].is_constant(1)) return std::nullopt;
  const std::optional<int64_t> stride = constant(t.strides[o.transposed ? 1 : d - 2]);
  if (!stride) return std::nullopt;
  o.row_stride = *stride;
  return o;
}

std::optional<Product> product_of(Node* n, DeviceType device) {
  const bool linear = is_op(n, "aten::linear");
  if ((!linear && !is_op(n, "aten::mm")) || n->prepacked || !n->results[0]) return std::nullopt;
  const TensorType& y = n->results[0]->type;
  Value *a = n->input(0), *b = n->input(1);
  const bool half = y.dtype == DType::F16 || y.dtype == DType::BF16;
  if (!half || y.device.type != device || y.dim() < 2 || !is_contiguous(y)) return std::nullopt;
  if (a->type.dtype != y.dtype || b->type.dtype != y.dtype || b->type.dim() != 2) return std::nullopt;
  const auto left = operand(a, Rows, Inner);
  const auto right = linear ? operand(b, Columns, Inner) : operand(b, Inner, Columns);
  if (!left || !right) return std::nullopt;
  Product p{n, {*left, *right}, linear ? value_of(n->args()[2]) : nullptr};
  if (p.bias && (p.bias->type.dim() != 1 || p.bias->type.dtype != y.dtype)) return std::nullopt;
  const auto columns = constant(y.sizes.back()), inner = constant(a->type.sizes.back()), all = constant(numel(y));
  if (!columns || !inner || !all || *columns == 0 || *inner == 0) return std::nullopt;
  p.sizes = {*all / *columns, *columns, *inner};
  return p;
}

// Sets Product::padding. False: nothing is to pad, or padding does not help.
bool find_padding(Product& p) {
  const auto pad = [&](Dim d) {
    p.padding[d] = (kElements - p.sizes[d] % kElements) % kElements;
    return p.padding[d] != 0;
  };
  if (p.sizes[Columns] % kElements != 0) pad(Columns);
  for (const Operand& o : p.operands)
    if (o.row_stride % kElements != 0 && !pad(o.dims[o.transposed ? 0 : 1])) return false;
  if (p.padding[Rows] != 0 && p.operands[0].value->type.dim() != 2) return false;
  return p.padding != std::array<int64_t, 3>{};
}

bool pays(const Product& p) {
  const double bytes = 2;
  const auto area = [&](Dim a, Dim b) { return static_cast<double>(p.sizes[a]) * static_cast<double>(p.sizes[b]); };
  double copied = 0;
  for (const Operand& o : p.operands)
    if (p.padding[o.dims[0]] != 0 || p.padding[o.dims[1]] != 0) copied += area(o.dims[0], o.dims[1]);
  if (p.padding[Columns] != 0) copied += area(Rows, Columns);
  const double work = 2 * area(Rows, Columns) * static_cast<double>(p.sizes[Inner]);
  return work / kUnalignedFlops - work / kAlignedFlops > kKernels + 2 * (2 * bytes * copied / kBytesPerSecond);
}

Value* padded(Builder& b, const Operand& o, const Product& p) {
  const int64_t first = p.padding[o.dims[0]], second = p.padding[o.dims[1]];
  if (first == 0 && second == 0) return o.value;
  if (!o.transposed) {
    const TensorType& t = o.value->type;
    const IntList by{Expr(0), Expr(second), Expr(0), Expr(first)};
    if (t.dim() == 2) return b("aten::constant_pad_nd", {o.value, by, Expr(0)});
    // As a matrix, which another product may read, too: then one kernel pads both.
    Expr rows = 1;
    for (size_t d = 0; d + 1 < t.dim(); ++d) rows = rows * t.sizes[d];
    Value* const matrix = b("aten::view", {o.value, IntList{rows, t.sizes.back()}});
    IntList sizes(t.sizes);
    sizes.back() = sizes.back() + Expr(second);
    return b("aten::view", {b("aten::constant_pad_nd", {matrix, by, Expr(0)}), sizes});
  }
  Value* const in_memory = b("aten::t", {o.value});
  return b("aten::t",
           {b("aten::constant_pad_nd", {in_memory, IntList{Expr(0), Expr(first), Expr(0), Expr(second)}, Expr(0)})});
}

// The product of this node, if it is to be padded.
std::optional<Product> unaligned_product(Node* n, const PassContext& context) {
  std::optional<Product> p = product_of(n, context.device);
  if (!p || !find_padding(*p) || !pays(*p)) return std::nullopt;
  if (context.computes_product &&
      context.computes_product(p->node->results[0]->type.dtype, p->sizes[Rows], p->sizes[Columns], p->sizes[Inner]))
    return std::nullopt;
  return p;
}

// The library may add up in another order.
bool may_pad(const PassContext& context) { return context.options.numerics != "eager"; }

}  // namespace

bool has_unaligned_products(const Graph& graph, const PassContext& context) {
  if (!may_pad(context)) return false;
  for (Node* n = graph.first(); n && n != context.end; n = n->next)
    if (unaligned_product(n, context)) return true;
  return false;
}

bool align_products(Graph& graph, const PassContext& context) {
  if (!may_pad(context)) return false;
  Rewriter rewriter(graph, context);
  for (Node *n = graph.first(), *next = nullptr; n && n != context.end; n = next) {
    next = n->next;
    const std::optional<Product> p = unaligned_product(n, context);
    if (!p) continue;
    if (!rewriter.may()) break;
    Builder b(graph, n);
    b.source = n->source;
    Value *const left = padded(b, p->operands[0], *p), *const right = padded(b, p->operands[1], *p);
    Value* y = nullptr;
    if (p->is_linear()) {
      Value* bias = p->bias;
      if (bias && p->padding[Columns] != 0)
        bias = b("aten::constant_pad_nd", {bias, IntList{Expr(0), Expr(p->padding[Columns])}, Expr(0)});
      y = b("aten::linear", {left, right, bias ? Arg(bias) : Arg(None{})});
    } else {
      y = b("aten::mm", {left, right});
    }
    const auto cut = [&](Dim d, size_t dim) {
      if (p->padding[d] != 0)
        y = b("aten::slice.Tensor", {y, Expr(static_cast<int64_t>(dim)), Expr(0), Expr(p->sizes[d]), Expr(1)});
    };
    cut(Rows, 0);
    cut(Columns, y->type.dim() - 1);
    if (y->type != n->results[0]->type) y = b("aten::clone", {y, MemoryFormat::Contiguous});
    rewriter.substitute(n->results[0], y);
    graph.erase(n);
  }
  return rewriter.changed();
}

}  // namespace vesta::graph
