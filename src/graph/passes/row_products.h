// aten::linear of one row, y = x w^T + b, becomes a sum over the products of each row of w with x: arithmetic that
// fuses with what comes before and after it, and that reads w once at the speed of memory. Libraries' products of
// matrices are made for many rows. For GPUs, where a decode step of a language model is such products. Those of one row
// whose results are read elsewhere (queries, keys and values) are one sum over the rows of all weights: a kernel reads
// each row from the weight that has it.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool write_row_products(Graph& graph, const PassContext& context);
}
