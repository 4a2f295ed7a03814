#include "graph/rules/factory_types.h"

#include "base/check.h"
#include "graph/rules/iterator_strides.h"

namespace vesta::graph {

TensorType factory_type(const NodeArgs& args, const IntList& sizes, DType otherwise, Device device) {
  for (Expr s : sizes) VESTA_USER_CHECK(!s.is_constant() || s.constant() >= 0, "a size must not be negative");
  TensorType out{.dtype = args.dtype("dtype", otherwise), .sizes = sizes, .strides = {}, .device = device};
  if (const auto* d = std::get_if<Device>(&args.get("device"))) out.device = *d;
  const bool* pinned = args.schema().index_of("pin_memory") >= 0 ? std::get_if<bool>(&args.get("pin_memory")) : nullptr;
  VESTA_USER_CHECK(!pinned || !*pinned, "pinned memory");
  if (out.dtype == DType::Other) VESTA_UNSUPPORTED("a tensor of a dtype that Vesta does not support");
  MemoryFormat format = MemoryFormat::Contiguous;
  if (args.schema().index_of("memory_format") >= 0)
    if (const auto* f = std::get_if<MemoryFormat>(&args.get("memory_format"))) format = *f;
  out.strides = format_strides(out.sizes, format);
  return out;
}

std::optional<Arg> fill_number(const Node& node) {
  switch (node.op->role()) {
    case Role::Fill: return node.named().get(node.op->schema.index_of("s") >= 0 ? "s" : "fill_value");
    case Role::Zeros: return Expr(0);
    case Role::Ones: return Expr(1);
    default: return std::nullopt;
  }
}

TensorType like_type(const NodeArgs& args, Guards& g) {
  const TensorType& x = args.tensor(0);
  TensorType out = factory_type(args, x.sizes, x.dtype, x.device);
  const auto* f = std::get_if<MemoryFormat>(&args.get("memory_format"));
  if (!f || *f == MemoryFormat::Preserve) out.strides = preserved_strides(g, x);
  return out;
}

}  // namespace vesta::graph
