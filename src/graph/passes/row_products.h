// Writes aten::linear of one row, y = x w^T + b, as a sum over the products of each row of w with x, on a GPU. This
// arithmetic fuses with the nodes before and after it and reads w once at the speed of memory; a decode step of a
// language model consists of such products, while the libraries' matrix products are made for many rows. Products of
// one row whose results are read elsewhere (queries, keys and values) become one sum over the rows of all weights: a
// kernel reads each row from the weight that has it.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool write_row_products(Graph& graph, const PassContext& context);

// Whether a kernel that computes v, a result of a product, cannot fuse with the nodes that read v. It computes one
// element at a time; these nodes also need other elements (halves of a rotation) or store them elsewhere (rows of a
// cache).
bool is_read_elsewhere(const Value* v);

// Whether a kernel computes this aten::linear if its weight has so many rows (PassContext::computes_product).
bool kernel_computes(const Node& linear, const PassContext& context, Expr columns);
}  // namespace vesta::graph
