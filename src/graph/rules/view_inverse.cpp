#include "graph/rules/view_inverse.h"

#include <numeric>

#include "graph/rules/decompose.h"

namespace vesta::graph {

std::vector<int64_t> view_permutation(const NodeArgs& args) {
  const size_t n = args.tensor(0).dim();
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  if (args.schema().index_of("dims") >= 0) {
    const IntList& dims = args.integers("dims");
    for (size_t i = 0; i < n; ++i) order[i] = wrap_dim(dims[i], n);
  } else if (args.schema().index_of("dim0") >= 0) {
    if (n > 0) std::swap(order[wrap_dim(args.integer("dim0"), n)], order[wrap_dim(args.integer("dim1"), n)]);
  } else if (n == 2) {
    std::swap(order[0], order[1]);
  }
  return order;
}

std::vector<bool> squeezed_dims(const NodeArgs& args) {
  const TensorType& x = args.tensor(0);
  std::vector<bool> asked(x.dim(), args.schema().index_of("dim") < 0);
  if (args.schema().index_of("dim") >= 0 && x.dim() > 0) {
    const Arg& dim = args.get("dim");
    if (const auto* one = std::get_if<Expr>(&dim)) asked[wrap_dim(*one, x.dim())] = true;
    if (const auto* many = std::get_if<IntList>(&dim))
      for (Expr d : *many) asked[wrap_dim(d, x.dim())] = true;
  }
  for (size_t i = 0; i < x.dim(); ++i) asked[i] = asked[i] && x.sizes[i].is_constant(1);
  return asked;
}

Value* reshape_back(Builder& b, const NodeArgs&, Value* base, Value* value) {
  return reshaped(b, value, base->type.sizes);
}

Value* permute_back(Builder& b, const NodeArgs& args, Value*, Value* value) {
  const std::vector<int64_t> order = view_permutation(args);
  IntList inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
  return b("aten::permute", {value, inverse});
}

Value* slice_back(Builder& b, const NodeArgs& args, Value* base, Value* value) {
  return b("aten::slice_scatter", {base, value, args.get("dim"), args.get("start"), args.get("end"), args.get("step")});
}
Value* select_back(Builder& b, const NodeArgs& args, Value* base, Value* value) {
  return b("aten::select_scatter", {base, value, args.get("dim"), args.get("index")});
}
Value* diagonal_back(Builder& b, const NodeArgs& args, Value* base, Value* value) {
  return b("aten::diagonal_scatter", {base, value, args.get("offset"), args.get("dim1"), args.get("dim2")});
}
Value* alias_back(Builder&, const NodeArgs&, Value*, Value* value) { return value; }

Value* as_strided_back(Builder& b, const NodeArgs& args, Value* base, Value* value) {
  return b("aten::as_strided_scatter", {base, value, args.get("size"), args.get("stride"), args.get("storage_offset")});
}
Value* view_as_real_back(Builder& b, const NodeArgs&, Value*, Value* value) {
  Value* dense = b("aten::clone", {value}, {{"memory_format", MemoryFormat::Contiguous}});
  return b("aten::view_as_complex", {dense});
}
Value* view_as_complex_back(Builder& b, const NodeArgs&, Value*, Value* value) {
  return b("aten::view_as_real", {value});
}
Value* view_dtype_back(Builder& b, const NodeArgs&, Value* base, Value* value) {
  Value* dense = b("aten::clone", {value}, {{"memory_format", MemoryFormat::Contiguous}});
  return b("aten::view.dtype", {dense, base->type.dtype});
}

}  // namespace vesta::graph
