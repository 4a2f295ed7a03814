// Running combinations along one dimension, read from the schema's `dim` argument.
#include "loops/ops/rows.h"

namespace vesta::loops {

namespace {

// On the CPU, ATen keeps running sums and products of float in double, and those of half types in float.
DType running_type(const graph::TensorType& x, DType t) {
  if (t == DType::F32 && x.device.type == DeviceType::CPU) return DType::F64;
  return opmath(t);
}

constexpr LoweringRow kScanRows[] = {
    {.names = "aten::logcumsumexp", .refusal = "no primitive adds logarithms"},
};

bool keeps_places(const Node& node) { return node.results.size() == 2; }

}  // namespace

std::span<const LoweringRow> scan_lowerings() { return kScanRows; }

std::optional<ScanShape> scan_shape(const Node& node, std::string* why) {
  auto refuse = [&](const char* reason) -> std::optional<ScanShape> {
    if (why) *why = reason;
    return std::nullopt;
  };
  const graph::TensorType& x = node.input(0)->type;
  const std::optional<size_t> dim = constant_dim(node);
  if (!dim) return refuse("no dimension to scan along");
  if (const LoweringRow* row = find_lowering(node)) return refuse(row->refusal);
  ScanShape s;
  s.op = node.op->row->reduce;
  s.dim = *dim;
  const Value* first = node.results[0] ? node.results[0] : node.results[1];
  s.compute = keeps_places(node) ? opmath(x.dtype) : running_type(x, first->type.dtype);
  return s;
}

ScalarRef Lowering::scan(const Node& node, const IndexMap& map, int part) {
  const ScanShape s = *scan_shape(node);
  const Value* operand = node.input(0);
  ScalarRef x = element(operand, map.operand);
  if (!keeps_places(node)) {
    DType t = node.results[0]->type.dtype;
    if (t != operand->type.dtype) x = dag_.cast(t, x);  // ATen converts before it adds
    return dag_.scan(s.op, dag_.cast(s.compute, x));
  }
  x = dag_.cast(s.compute, x);
  ScalarRef best = dag_.scan(s.op, x);
  if (part == 0) return best;
  // The last of equal elements wins, and a NaN wins over everything. Where an element wins, its index is the greatest
  // so far.
  ScalarRef wins = dag_.bin(Prim::Eq, x, best);
  if (is_float(s.compute)) wins = dag_.bin(Prim::Or, wins, dag_.un(Prim::IsNan, x));
  ScalarRef here = dag_.size(DType::I64, map.operand[s.dim]);
  return dag_.scan(ReduceOp::Max, dag_.select(wins, here, dag_.integer(DType::I64, 0)));
}

}  // namespace vesta::loops
