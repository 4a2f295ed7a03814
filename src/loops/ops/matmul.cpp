// Matrix products as sums of products. Kernels compute them where tensor cores do (loops/product.h); elsewhere they are
// calls.
#include "loops/ops/rows.h"

namespace vesta::loops {

namespace {

constexpr int64_t kScaledSizes = 16;  // _scaled_mm takes multiples of it as sizes

const Value* value_or_null(const graph::Arg& a) {
  auto* const* v = std::get_if<Value*>(&a);
  return v ? *v : nullptr;
}

ProductOperands linear(const Node& node) {
  return {node.input(0), node.input(1), value_or_null(node.named().get("bias"))};
}

ProductOperands mm(const Node& node) { return {node.input(0), node.input(1), nullptr, true}; }

ProductOperands bmm(const Node& node) {
  return {.rows = node.input(0), .columns = node.input(1), .columns_last = true, .batch = 1};
}

bool has_sizes(const graph::TensorType& t, std::initializer_list<Expr> sizes) {
  return std::equal(t.sizes.begin(), t.sizes.end(), sizes.begin(), sizes.end(), provably_equal);
}

ProductOperands matmul(const Node& node) {
  return {
      .rows = node.input(0), .columns = node.input(1), .columns_last = true, .batch = node.input(0)->type.dim() - 2};
}

// Scales of the whole matrices, or of each row and each column. Sizes and types for which ATen raises, or did in
// earlier versions, are not taken: its call decides.
bool are_scales(const ProductOperands& p, DType result) {
  const graph::TensorType &x = p.rows->type, &w = p.columns->type, &a = p.row_scale->type, &b = p.column_scale->type;
  if (a.dtype != DType::F32 || b.dtype != DType::F32) return false;
  const auto is_one = [](const graph::TensorType& t) {
    return std::all_of(t.sizes.begin(), t.sizes.end(), [](Expr s) { return s.is_constant(1); });
  };
  if (a.dim() <= 2 && b.dim() <= 2 && is_one(a) && is_one(b)) return true;
  return has_sizes(a, {x.sizes[0], 1}) && has_sizes(b, {1, w.sizes[1]}) && graph::is_contiguous(a) &&
         graph::is_contiguous(b) && result == DType::BF16 && x.dtype == DType::F8E4M3FN && w.dtype == DType::F8E4M3FN;
}

ProductOperands scaled_mm(const Node& node) {
  const graph::NodeArgs args = node.named();
  const ProductOperands p{node.input(0),
                          node.input(1),
                          value_or_null(args.get("bias")),
                          true,
                          value_or_null(args.get("scale_a")),
                          value_or_null(args.get("scale_b"))};
  const graph::TensorType &x = p.rows->type, &w = p.columns->type, &y = node.results[0]->type;
  const bool types = is_float8(x.dtype) && is_float8(w.dtype) &&
                     (x.dtype == DType::F8E4M3FN || w.dtype == DType::F8E4M3FN) &&
                     (y.dtype == DType::BF16 || y.dtype == DType::F16 || y.dtype == DType::F32);
  if (!types || value_or_null(args.get("scale_result")) || !p.row_scale || !p.column_scale || !are_scales(p, y.dtype) ||
      !provably_divisible(x.sizes[1], kScaledSizes) || !provably_divisible(w.sizes[1], kScaledSizes))
    return {};
  if (p.bias && (p.bias->type.dtype != y.dtype || y.dtype == DType::F32 || !has_sizes(p.bias->type, {w.sizes[1]})))
    return {};
  return p;
}

// The dimensions of panels besides the inner ones.
size_t dims_of_panels(const graph::TensorType& panels) { return panels.dtype == DType::BF16 ? 3 : 2; }

ProductOperands packed_linear(const Node& node) {
  return {.rows = node.input(0),
          .columns = node.input(1),
          .bias = value_or_null(node.named().get("bias")),
          .in_panels = true,
          .inner = node.input(1)->type.dim() - dims_of_panels(node.input(1)->type)};
}

constexpr LoweringRow kMatmulRows[] = {
    {.names = "aten::linear", .product = linear},
    {.names = "aten::mm", .product = mm},
    {.names = "aten::bmm", .product = bmm},
    {.names = "aten::matmul vesta::matmul_f32", .product = matmul},
    {.names = "aten::_scaled_mm", .product = scaled_mm},
    {.names = "vesta::packed_linear", .product = packed_linear},
};

}  // namespace

std::span<const LoweringRow> matmul_lowerings() { return kMatmulRows; }

std::optional<ProductOperands> product_operands(const Node& node) {
  const LoweringRow* const row = find_lowering(node);
  if (!row || !row->product) return std::nullopt;
  const size_t dims = node.results[0] ? node.results[0]->type.dim() : 0;
  if (dims < 2) return std::nullopt;
  ProductOperands p = row->product(node);
  if (!p.rows || p.rows->type.dim() != dims + p.inner - 1 ||
      p.columns->type.dim() != (p.in_panels ? dims_of_panels(p.columns->type) : 1) + p.inner + p.batch)
    return std::nullopt;
  return p;
}

std::vector<const Value*> applied_to_sums(const ProductOperands& p) {
  std::vector<const Value*> out;
  for (const Value* v : {p.row_scale, p.column_scale, p.bias})
    if (v) out.push_back(v);
  return out;
}

}  // namespace vesta::loops
