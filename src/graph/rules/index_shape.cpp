#include "graph/rules/index_shape.h"

#include "base/check.h"
#include "graph/rules/iterator_strides.h"

namespace vesta::graph {

IndexPlan plan_index(Guards& g, const TensorType& x, const ValueList& indices) {
  VESTA_USER_CHECK(indices.size() <= x.dim(), "too many indices");
  std::vector<Value*> each(x.dim(), nullptr);
  std::copy(indices.begin(), indices.end(), each.begin());
  IndexPlan plan;
  int64_t first = -1, last = -1;
  for (size_t d = 0; d < x.dim(); ++d) {
    if (!each[d]) continue;
    const DType t = each[d]->type.dtype;
    if (t == DType::Bool || t == DType::U8)
      throw NeedsValue("indexing with a mask: the size of the result depends on the mask's values");
    VESTA_USER_CHECK(t == DType::I64 || t == DType::I32, "indices must be integers");
    plan.index_sizes = broadcast(g, plan.index_sizes, each[d]->type.sizes);
    if (first < 0) first = static_cast<int64_t>(d);
    last = static_cast<int64_t>(d);
  }
  VESTA_USER_CHECK(first >= 0, "index needs at least one index");
  bool adjacent = true;
  for (int64_t d = first; d <= last; ++d) adjacent &= each[d] != nullptr;
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t d = 0; d < x.dim(); ++d) {
      const bool now = adjacent ? pass == 0 : (each[d] != nullptr) == (pass == 0);
      if (!now) continue;
      plan.order.push_back(static_cast<int64_t>(d));
      plan.indices.push_back(each[d]);
    }
  }
  plan.before = adjacent ? static_cast<size_t>(first) : 0;
  return plan;
}

TensorType index_result(Guards& g, const TensorType& x, const ValueList& indices) {
  const IndexPlan plan = plan_index(g, x, indices);
  // The source as the iterator sees it: its indexed dimensions are replaced by those of the indices, with stride 0.
  TensorType source{.dtype = x.dtype, .sizes = {}, .strides = {}, .device = x.device};
  const auto put_indices = [&] {
    for (Expr s : plan.index_sizes) {
      source.sizes.push_back(s);
      source.strides.push_back(0);
    }
  };
  bool placed = false;
  for (size_t k = 0; k < plan.order.size(); ++k) {
    const int64_t d = plan.order[k];
    if (plan.indices[k]) {
      if (!placed) put_indices();
      placed = true;
    } else {
      source.sizes.push_back(x.sizes[d]);
      source.strides.push_back(x.strides[d]);
    }
  }
  const size_t after = source.sizes.size() - plan.before - plan.index_sizes.size();
  std::vector<TensorType> shaped;
  for (Value* v : plan.indices) {
    if (!v) continue;
    // Indices are broadcast to their common size, then reshaped with dimensions of size 1 around it.
    TensorType i = v->type;
    const size_t missing = plan.index_sizes.size() - i.dim();
    TensorType wide{.dtype = i.dtype, .sizes = {}, .strides = {}, .device = i.device};
    wide.sizes.assign(plan.before, 1);
    for (Expr s : plan.index_sizes) wide.sizes.push_back(s);
    wide.sizes.insert(wide.sizes.end(), after, Expr(1));
    wide.strides.assign(wide.sizes.size(), 0);
    for (size_t k = 0; k < i.dim(); ++k)
      if (!(i.sizes[k].is_constant(1) && !plan.index_sizes[missing + k].is_constant(1)))
        wide.strides[plan.before + missing + k] = i.strides[k];
    shaped.push_back(wide);
  }
  std::vector<const TensorType*> operands = {&source};
  for (const TensorType& t : shaped) operands.push_back(&t);
  source.strides = iterator_strides(g, source.sizes, operands);
  return source;
}

}  // namespace vesta::graph
