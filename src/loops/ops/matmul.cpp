// Matrix products as sums of products. Kernels compute them where tensor cores do (loops/product.h); elsewhere they are
// calls.
#include "loops/ops/rows.h"

namespace vesta::loops {

namespace {

ProductOperands linear(const Node& node) {
  const auto* const bias = std::get_if<Value*>(&node.named().get("bias"));
  return {node.input(0), node.input(1), bias ? *bias : nullptr};
}

ProductOperands mm(const Node& node) { return {node.input(0), node.input(1), nullptr, true}; }

constexpr LoweringRow kRows[] = {
    {.names = "aten::linear", .product = linear},
    {.names = "aten::mm", .product = mm},
};

}  // namespace

std::span<const LoweringRow> matmul_lowerings() { return kRows; }

std::optional<ProductOperands> product_operands(const Node& node) {
  const LoweringRow* const row = find_lowering(node);
  if (!row || !row->product) return std::nullopt;
  ProductOperands p = row->product(node);
  const size_t dims = node.results[0] ? node.results[0]->type.dim() : 0;
  if (dims < 2 || p.rows->type.dim() != dims || p.columns->type.dim() != 2) return std::nullopt;
  return p;
}

}  // namespace vesta::loops
