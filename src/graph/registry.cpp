#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "base/check.h"
#include "base/split.h"
#include "graph/graph.h"
#include "graph/ops/rows.h"
#include "graph/rules/broadcast.h"

namespace vesta::graph {
namespace {

constexpr const char* kSchemas[] = {
#include "graph/ops/schemas.inc"
};

// Operators of ours. Kernels alone compute them, but for the one that lays a weight out.
constexpr const char* kOwnSchemas[] = {
    // A weight of the sizes [row, inner...] as [panel][inner...][row of the panel], the last panel filled up with zeros
    // (runtime/in_panels.h).
    "vesta::in_panels(Tensor weight, int panel) -> Tensor",
    // x times the transposed weight, which lies in panels. It sums over as many trailing dimensions of x as a panel has
    // inner dimensions. `columns` of the result: fewer than the panels have where the last one is filled up with zeros.
    "vesta::packed_linear(Tensor x, Tensor panels, Tensor? bias, SymInt? columns=None) -> Tensor",
    // aten::matmul of bfloat16 whose result is float32: the sums as they are added up.
    "vesta::matmul_f32(Tensor self, Tensor other) -> Tensor",
    // A convolution in which each channel has its own window. taps: [row of the window, column, channel]. `dtype` is
    // the result's, that of x by default.
    "vesta::depthwise_convolution(Tensor x, Tensor taps, Tensor? bias, int[2] kernel_size, int[2] stride, int[2] "
    "padding, int[2] dilation, *, ScalarType? dtype=None) -> Tensor",
};

class Registry {
 public:
  Registry() {
    std::unordered_map<std::string_view, const OpRow*> row_of;
    for (RowFamily family : kRowFamilies) {
      for (const OpRow& row : family()) {
        for (const std::string_view name : split(row.names, ' '))
          VESTA_CHECK(row_of.emplace(name, &row).second, "two rows for operator {}", name);
      }
    }
    const auto add = [&](const char* text) {
      Schema schema = parse_schema(text);
      const auto row = row_of.find(schema.name);
      insert(std::move(schema), row == row_of.end() ? nullptr : row->second);
    };
    std::ranges::for_each(kSchemas, add);
    std::ranges::for_each(kOwnSchemas, add);
    for (const auto& [name, row] : row_of)
      VESTA_CHECK(ops_.contains(name), "the row {} has no schema in ops/schemas.inc", name);
  }

  const Op* find(std::string_view name) const {
    std::shared_lock lock(mutex_);
    const auto it = ops_.find(name);
    return it == ops_.end() ? nullptr : it->second;
  }

  const Op& declare(std::string_view schema_text) {
    Schema schema = parse_schema(schema_text);
    std::unique_lock lock(mutex_);
    const auto it = ops_.find(schema.name);
    return it == ops_.end() ? insert(std::move(schema), nullptr) : *it->second;
  }

 private:
  const Op& insert(Schema schema, const OpRow* row) {
    Op& op = storage_.emplace_back(Op{schema.name, {}, row});
    op.schema = std::move(schema);
    ops_.emplace(op.name, &op);
    return op;
  }

  mutable std::shared_mutex mutex_;
  std::deque<Op> storage_;
  std::unordered_map<std::string_view, const Op*> ops_;  // keys live in storage_
};

Registry& registry() {
  static Registry r;
  return r;
}

}  // namespace

LayoutRule Op::layout_rule() const {
  if (family() == Family::Pointwise) return LayoutRule::Follows;
  if (family() == Family::Reduction) return LayoutRule::Ignores;
  return row ? row->layout : LayoutRule::None;
}

const Op* find_op(std::string_view name) { return registry().find(name); }

const Op& get_op(std::string_view name) {
  const Op* op = find_op(name);
  VESTA_CHECK(op, "no operator {} is declared", name);
  return *op;
}

const Op& declare_op(std::string_view schema_text) { return registry().declare(schema_text); }

std::vector<TensorType> infer_types(const Op& op, std::span<const Arg> args, Guards& guards) {
  if (!op.row) VESTA_UNSUPPORTED("{} has no row in the op table, so the type of its result is unknown", op.name);
  std::vector<TensorType> types;
  const NodeArgs named(op.schema, args);
  if (op.row->shape) {
    op.row->shape(named, guards, types);
  } else {
    default_shape(*op.row, named, guards, types);
  }
  for (TensorType& t : types) decide_empty_sizes(guards, t, op.row->family != Family::View);
  return types;
}

}  // namespace vesta::graph
