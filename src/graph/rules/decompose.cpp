#include "graph/rules/decompose.h"

#include "base/check.h"
#include "graph/rules/view_strides.h"

namespace vesta::graph {

Value* cast(Builder& b, Value* v, DType t) { return v->type.dtype == t ? v : b("aten::_to_copy", {v}, {{"dtype", t}}); }
Value* opmath(Builder& b, Value* v) { return cast(b, v, vesta::opmath(v->type.dtype)); }

std::vector<Value*> finish(Builder& b, const Node& node, std::vector<Value*> values) {
  VESTA_CHECK(values.size() == node.results.size(), "{}: {} values for {} results", node.op->name, values.size(),
              node.results.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!node.results[i] || !values[i]) continue;
    const TensorType& want = node.results[i]->type;
    Value*& v = values[i];
    v = cast(b, v, want.dtype);
    VESTA_CHECK(v->type.sizes == want.sizes, "{}: a decomposition changed the sizes of result {}", node.op->name, i);
    if (v->type.strides == want.strides) continue;
    // A computed value may get eager's layout. A value that views or owns other memory is copied.
    const Family family = v->producer ? v->producer->op->family() : Family::View;
    bool borrowed = family == Family::View || family == Family::Extern;
    node.for_each_input([&](Value* input) { borrowed |= input == v; });
    if (borrowed) v = b("aten::clone", {v});
    v->type.strides = want.strides;
  }
  return values;
}

Value* given(const Node& node, std::string_view name) {
  const NodeArgs args = node.named();
  return args.has(name) ? std::get<Value*>(args.get(name)) : nullptr;
}

IntList range(size_t from, size_t to) {
  IntList out;
  for (size_t i = from; i < to; ++i) out.push_back(static_cast<int64_t>(i));
  return out;
}

Value* along(Builder& b, Value* vector, size_t dim, size_t ndim) {
  Sizes shape(ndim, Expr(1));
  shape[dim] = vector->type.sizes[0];
  return reshaped(b, vector, shape);
}

std::pair<Value*, Value*> halves(Builder& b, Value* x, Expr dim) {
  const Expr d = wrap_dim(dim, x->type.dim());
  const Expr half = floordiv(x->type.sizes[static_cast<size_t>(d.constant())], 2);
  return {b("aten::slice.Tensor", {x, d, Expr(0), half, Expr(1)}),
          b("aten::slice.Tensor", {x, d, half, half + half, Expr(1)})};
}

Value* sum_keeping(Builder& b, Value* v, const IntList& dims) {
  return b("aten::sum.dim_IntList", {v, dims, true}, {{"dtype", v->type.dtype}});
}
Value* mean_keeping(Builder& b, Value* v, const IntList& dims) {
  Expr count = 1;
  for (Expr d : dims) count = count * v->type.sizes[wrap_dim(d, v->type.dim())];
  return b("aten::div.Scalar", {sum_keeping(b, v, dims), count});
}
Value* amax_keeping(Builder& b, Value* v, const IntList& dims) { return b("aten::amax", {v, dims, true}); }

Value* reshaped(Builder& b, Value* v, Sizes sizes) {
  if (v->type.sizes == sizes) return v;
  GraphGuards g(b.graph());
  g.source = b.source;
  const IntList wanted(sizes.begin(), sizes.end());
  if (view_strides(g, v->type, sizes)) return b("aten::view", {v, wanted});
  Value* dense = b("aten::clone", {v}, {{"memory_format", MemoryFormat::Contiguous}});
  return b("aten::view", {dense, wanted});
}

}  // namespace vesta::graph
