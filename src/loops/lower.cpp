#include "loops/lower.h"

#include <algorithm>

#include "base/check.h"
#include "graph/rules/broadcast.h"
#include "graph/rules/complex.h"
#include "graph/rules/operands.h"
#include "loops/float8.h"
#include "loops/ops/rows.h"

namespace vesta::loops {

using graph::Arg;
using graph::Family;
using graph::TensorType;

size_t Lowering::KeyHash::operator()(const Key& k) const {
  size_t h = std::hash<const void*>{}(k.value) ^ (k.mask * 0x9E3779B97F4A7C15ull);
  for (const Expr& e : k.index) h = (h ^ e.hash()) * 0x9E3779B97F4A7C15ull + (h >> 11);
  return h;
}

std::vector<Expr> broadcast_index(std::span<const Expr> index, std::span<const Expr> operand_sizes) {
  VESTA_CHECK(operand_sizes.size() <= index.size(), "an operand has more dimensions than the result");
  std::vector<Expr> out(operand_sizes.size());
  size_t lead = index.size() - operand_sizes.size();
  for (size_t d = 0; d < out.size(); ++d) out[d] = operand_sizes[d].is_constant(1) ? Expr(0) : index[lead + d];
  return out;
}

Expr linear_index(std::span<const Expr> index, std::span<const Expr> sizes) {
  Expr linear = 0;
  for (size_t d = 0; d < sizes.size(); ++d) linear = linear * sizes[d] + index[d];
  return linear;
}

std::vector<Expr> delinearize(Expr linear, std::span<const Expr> sizes) {
  std::vector<Expr> index(sizes.size());
  Expr below = 1;
  bool first = true;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d].is_constant(1)) {
      index[d] = 0;
      continue;
    }
    bool outermost = true;
    for (size_t o = 0; o < d; ++o) outermost &= sizes[o].is_constant(1);
    Expr q = first ? linear : floordiv(linear, below);
    index[d] = outermost || sizes[d].is_constant(0) ? q : mod(q, sizes[d]);
    below = below * sizes[d];
    first = false;
    if (below.is_constant(0)) {  // an empty space, whose indices are never used
      for (size_t o = 0; o < d; ++o) index[o] = 0;
      break;
    }
  }
  return index;
}

Expr offset_of(const MemoryRef& memory, std::span<const Expr> index) {
  Expr offset = memory.offset;
  for (size_t d = 0; d < index.size(); ++d) offset = offset + index[d] * memory.strides[d];
  return offset;
}

std::optional<size_t> constant_dim(Expr dim, size_t dims) {
  const auto n = static_cast<int64_t>(dims);
  if (!dim.is_constant() || dim.constant() < -n || dim.constant() >= n) return std::nullopt;
  return static_cast<size_t>(graph::wrap_dim(dim, dims));
}

std::optional<size_t> constant_dim(const Node& node) {
  const auto result = std::find_if(node.results.begin(), node.results.end(), [](const Value* v) { return v; });
  VESTA_CHECK(result != node.results.end(), "{} has no result", node.op->name);
  return constant_dim(node.named().integer("dim"), (*result)->type.dim());
}

ScalarRef Lowering::less(Expr a, Expr b) {
  return dag_.bin(Prim::Lt, dag_.size(DType::I64, a), dag_.size(DType::I64, b));
}

ScalarRef Lowering::at_least(Expr a, Expr b) {
  return dag_.bin(Prim::Ge, dag_.size(DType::I64, a), dag_.size(DType::I64, b));
}

ScalarRef Lowering::in_range(Expr i, Expr begin, Expr end) {
  ScalarRef c = dag_.logical_and(at_least(i, begin), less(i, end));
  return c.id == kNoRef ? dag_.integer(DType::Bool, 1) : c;
}

bool Lowering::is_known(ScalarRef b, bool value) const {
  const Instr& i = dag_.instrs()[b.id];
  return i.kind == InstrKind::Constant && i.imm == value;
}

DType scalar_type(DType t) { return opmath(real_of(t)); }

ScalarRef Lowering::number(const Arg& a, DType t) {
  if (auto* b = std::get_if<bool>(&a)) return dag_.cast(t, dag_.integer(DType::Bool, *b));
  if (auto* e = std::get_if<Expr>(&a)) return dag_.cast(t, dag_.size(DType::I64, *e));
  double v = std::get<double>(a);
  if (t == DType::Bool) return dag_.integer(t, v != 0);
  if (is_integral(t)) return dag_.integer(t, static_cast<int64_t>(v));
  return dag_.cast(t, dag_.constant(DType::F64, v));
}

ScalarRef Lowering::element(const Value* v, Index index) {
  Key key{v, mask_.id, {index.begin(), index.end()}};
  if (is_complex(v->type.dtype)) key.index.push_back(part_);
  auto it = known_.find(key);
  if (it != known_.end()) return it->second;
  const DType t = v->type.dtype;
  ScalarRef r = compute(v, index);
  const bool made_here = v->producer && v->producer->op->family() != Family::View && !buffers_.memory_of(v);
  if (manner_.rounds && made_here && is_narrow(t)) r = dag_.cast(t, r);
  r = dag_.cast(scalar_type(t), r);
  if (made_here) computed(v->producer);
  known_.emplace(std::move(key), r);
  return r;
}

ScalarRef Lowering::element_where(ScalarRef condition, const Value* v, Index index) {
  const ScalarRef before = std::exchange(mask_, dag_.logical_and(mask_, condition));
  const ScalarRef r = element(v, index);
  mask_ = before;
  return r;
}

void Lowering::computed(const Node* node) {
  if (std::find(nodes_.begin(), nodes_.end(), node) == nodes_.end()) nodes_.push_back(node);
}

ScalarRef Lowering::compute(const Value* v, Index index) {
  VESTA_CHECK(index.size() == v->type.dim(), "%{} is read with {} indices instead of {}", v->id, index.size(),
              v->type.dim());
  const bool complex = is_complex(v->type.dtype);
  if (const MemoryRef* memory = buffers_.memory_of(v)) {
    const Expr offset = offset_of(*memory, index) + (complex ? part_ : Expr(0));
    return dag_.load(memory->buffer, offset, mask_);
  }
  const Node* node = v->producer;
  VESTA_CHECK(node, "the graph input %{} is in no buffer", v->id);
  if (product_operands(*node)) return at_its_index(*node, v, index);
  switch (node->op->family()) {
    case Family::View: {
      VESTA_CHECK(node->op->row->view, "the view {} has no index map", node->op->name);
      std::vector<Expr> inner = node->op->row->view(node->named(), v->type, index);
      const bool of_complex = is_complex(node->input(0)->type.dtype);
      if (complex && !of_complex) inner.back() = part_;  // view_as_complex
      if (of_complex && !complex) {                      // view_as_real
        Part part(*this, index.back());
        return element(node->input(0), inner);
      }
      return element(node->input(0), inner);
    }
    case Family::Pointwise:
      return graph::is_complex_node(*node) ? complex_pointwise(*node, v->type, index)
                                           : pointwise(*node, v->type, index);
    case Family::Reduction: return at_its_index(*node, v, index);
    case Family::Scan: return scan_at_its_index(*node, v, index);
    case Family::Indexed:
    case Family::Factory: {
      if (is_one_hot_gather(*node) && buffers_.index_map(node)) return at_its_index(*node, v, index);
      const LoweringRow* row = find_lowering(*node);
      VESTA_CHECK(row && row->element, "{} has no lowering", node->op->name);
      return row->element(*this, *node, v, index);
    }
    default: VESTA_CHECK(false, "{} is in a kernel but has no lowering", node->op->name);
  }
}

// An operand's element at an index of the result, before any cast; of a complex operand the current part.
ScalarRef Lowering::operand(const Arg& arg, Index index) {
  if (auto* value = std::get_if<Value*>(&arg)) return element(*value, broadcast_index(index, (*value)->type.sizes));
  if (auto* b = std::get_if<bool>(&arg)) return dag_.integer(DType::Bool, *b);
  if (auto* e = std::get_if<Expr>(&arg)) return dag_.size(DType::I64, *e);
  if (auto* f = std::get_if<double>(&arg)) return dag_.constant(DType::F64, *f);
  const auto* z = std::get_if<std::complex<double>>(&arg);
  VESTA_CHECK(z, "an argument is no operand");
  return dag_.constant(DType::F64, part_.is_constant(0) ? z->real() : z->imag());
}

ScalarRef Lowering::complex_pointwise(const Node& node, const TensorType& type, Index index) {
  graph::NodeArgs args = node.named();
  const Expr wanted = part_;
  std::vector<graph::ScalarPair> x;
  for (const graph::PointwiseOperand& o : graph::pointwise_types(*node.op->row, args).operands) {
    const Arg& arg = args[o.arg];
    const DType t = real_of(o.to);
    const auto* value = std::get_if<Value*>(&arg);
    const bool complex = value ? is_complex((*value)->type.dtype) : std::holds_alternative<std::complex<double>>(arg);
    graph::ScalarPair p;
    {
      Part part(*this, 0);
      p.re = dag_.cast(t, operand(arg, index));
    }
    if (complex) {
      Part part(*this, 1);
      p.im = dag_.cast(t, operand(arg, index));
    } else if (is_complex(o.to)) {
      p.im = dag_.constant(t, 0);
    }
    x.push_back(p);
  }
  const graph::ComplexBody body = graph::find_complex_body(node);
  VESTA_CHECK(body, "{} of complex numbers has no formula", node.op->name);
  const graph::ScalarPair r = body(dag_, args, x);
  if (!is_complex(type.dtype)) return r.re;
  VESTA_CHECK(r.complex(), "{} gives no complex number", node.op->name);
  return dag_.select(less(wanted, 1), r.re, r.im);
}

ScalarRef Lowering::pointwise(const Node& node, const TensorType& type, Index index) {
  const graph::OpRow& row = *node.op->row;
  graph::NodeArgs args = node.named();
  graph::PointwiseTypes types = graph::pointwise_types(row, args);
  std::vector<ScalarRef> x;
  for (const graph::PointwiseOperand& o : types.operands) {
    const Arg& arg = args[o.arg];
    ScalarRef s = operand(arg, index);
    if (o.through != o.to && opmath(o.through) == o.to) {
      const bool is_tensor = std::holds_alternative<Value*>(arg);
      DType own = is_tensor ? std::get<Value*>(arg)->type.dtype : DType::Other;
      if (own != o.through) s = dag_.cast(o.through, s);  // the producer has rounded a value of that type already
    }
    x.push_back(dag_.cast(o.to, s));
  }
  ScalarRef r = row.body(dag_, args, x);
  // An explicit conversion to a narrow type rounds.
  if (row.promote == graph::Promote::Keep && type.dtype != opmath(type.dtype)) {
    bool converts = false;
    node.for_each_input([&](Value* v) { converts |= v->type.dtype != type.dtype; });
    if (!converts) return r;
    if (type.dtype == DType::F8E4M3FN && e4m3fn_saturates()) {
      const double largest = 448;
      r = dag_.bin(Prim::Min, dag_.cast(DType::F32, r), dag_.constant(DType::F32, largest));
      r = dag_.bin(Prim::Max, r, dag_.constant(DType::F32, -largest));
    }
    return dag_.cast(type.dtype, r);
  }
  return r;
}

ScalarRef Lowering::at_its_index(const Node& node, const Value* v, Index index) {
  const IndexMap* map = buffers_.index_map(&node);
  if (!map) throw CannotFuse("%" + std::to_string(v->id) + " is reduced in another kernel");
  std::optional<ReductionShape> shape = reduction_shape(node);
  VESTA_CHECK(shape, "{} is no reduction", node.op->name);
  std::vector<Expr> kept;
  for (size_t d = 0, out = 0; d < shape->reduced.size(); ++d) {
    if (shape->reduced[d]) {
      out += shape->keep;
    } else {
      kept.push_back(index[out++]);
    }
  }
  for (size_t d = 0; d < kept.size(); ++d) {
    if (!provably_equal(kept[d], map->kept[d]))
      throw CannotFuse("%" + std::to_string(v->id) + " is read at another index than it is computed at");
  }
  const bool arg = shape->op == ReduceOp::ArgMax || shape->op == ReduceOp::ArgMin;
  int part = arg && (node.results.size() == 1 || v->result == 1) ? 1 : 0;
  // The reduction runs over all elements, wherever its result is used.
  const ScalarRef saved = std::exchange(mask_, {});
  ScalarRef r = reduction(node, *map, part);
  mask_ = saved;
  return r;
}

ScalarRef Lowering::scan_at_its_index(const Node& node, const Value* v, Index index) {
  const IndexMap* map = buffers_.index_map(&node);
  if (!map) throw CannotFuse("%" + std::to_string(v->id) + " is computed in another kernel");
  for (size_t d = 0; d < index.size(); ++d) {
    if (!provably_equal(index[d], map->operand[d]))
      throw CannotFuse("%" + std::to_string(v->id) + " is read at another index than it is computed at");
  }
  const ScalarRef saved = std::exchange(mask_, {});
  ScalarRef r = scan(node, *map, v->result);
  mask_ = saved;
  return r;
}

ScalarRef Lowering::reduction(const Node& node, const IndexMap& map, int part) {
  std::optional<ReductionShape> shape = reduction_shape(node);
  VESTA_CHECK(shape, "{} is no reduction", node.op->name);
  if (map.partials) {
    std::vector<Expr> at = {map.chunk};
    at.insert(at.end(), map.kept.begin(), map.kept.end());
    ScalarRef x = dag_.load(map.partials->buffer, offset_of(*map.partials, at));
    return dag_.reduce(shape->op, x, {}, part);
  }
  if (const auto operands = product_operands(node)) return product(*operands, map);
  const Value* operand = node.input(0);
  ScalarRef x = dag_.cast(shape->compute, element(operand, map.operand));
  if (is_one_hot_gather(node)) {
    size_t d =
        static_cast<size_t>(std::find(shape->reduced.begin(), shape->reduced.end(), true) - shape->reduced.begin());
    std::vector<Expr> at = map.operand;
    at[d] = 0;
    ScalarRef wanted = manner_.asserts_places
                           ? dag_.size(DType::I64, place(node.input(2), at, operand->type.sizes[d], /*wraps=*/false))
                           : dag_.cast(DType::I64, element(node.input(2), at));
    ScalarRef here = dag_.bin(Prim::Eq, wanted, dag_.size(DType::I64, map.operand[d]));
    x = dag_.select(here, x, dag_.constant(shape->compute, 0));
  }
  ScalarRef position;
  if (shape->op == ReduceOp::ArgMax || shape->op == ReduceOp::ArgMin) {
    std::vector<Expr> at, sizes;
    for (size_t d = 0; d < shape->reduced.size(); ++d) {
      if (!shape->reduced[d]) continue;
      at.push_back(map.operand[d]);
      sizes.push_back(operand->type.sizes[d]);
    }
    position = dag_.size(DType::I64, linear_index(at, sizes));
  }
  return dag_.reduce(shape->op, x, position, part);
}

ScalarRef Lowering::product(const ProductOperands& operands, const IndexMap& map) {
  const Expr column = map.kept.back();
  const std::vector<Expr> inner(map.operand.end() - static_cast<std::ptrdiff_t>(operands.inner), map.operand.end());
  std::vector<Expr> row(map.kept.begin(), map.kept.end() - 1);
  row.insert(row.end(), inner.begin(), inner.end());
  std::vector<Expr> at = inner;
  if (operands.in_panels) {
    const bool pairs = operands.columns->type.dtype == DType::BF16;
    const Expr panel = operands.columns->type.sizes[operands.inner + 1];
    at.insert(at.begin(), floordiv(column, panel));
    if (pairs) at.back() = floordiv(inner.back(), 2);
    at.push_back(mod(column, panel));
    if (pairs) at.push_back(mod(inner.back(), 2));
  } else {
    at.insert(operands.columns_last ? at.end() : at.begin(), column);
  }
  at.insert(at.begin(), row.begin(), row.begin() + static_cast<std::ptrdiff_t>(operands.batch));
  const ScalarRef x = dag_.cast(DType::F32, element(operands.rows, row));
  ScalarRef r =
      dag_.reduce(ReduceOp::Sum, dag_.bin(Prim::Mul, x, dag_.cast(DType::F32, element(operands.columns, at))), {}, 0);
  const auto applied = [&](const Value* v) {
    return dag_.cast(DType::F32, element(v, broadcast_index(map.kept, v->type.sizes)));
  };
  if (operands.row_scale)
    r = dag_.bin(Prim::Mul, r, dag_.bin(Prim::Mul, applied(operands.row_scale), applied(operands.column_scale)));
  if (operands.bias) r = dag_.bin(Prim::Add, r, applied(operands.bias));
  return r;
}

std::string why_not_lowered(const Node& node) {
  const graph::Op& op = *node.op;
  if (!op.row) return "no row in the op table";
  if (op.has(graph::kRandom)) return "draws random numbers";
  std::string why;
  bool complex = false, float8 = false;
  auto check = [&](const TensorType& t) {
    if (is_complex(t.dtype)) complex = true;
    if (t.dtype == DType::Other) why = "an element type without arithmetic";
    if (!is_float8(t.dtype)) return;
    float8 = true;
    if (t.device.type != DeviceType::CUDA) why = "float8 on the CPU";
  };
  for (const Value* v : node.results) {
    if (v) check(v->type);
  }
  node.for_each_input([&](Value* v) { check(v->type); });
  if (!why.empty()) return why;
  // float8 is converted and viewed in other shapes; no operator computes with it.
  if (float8 && (complex || !(op.family() == Family::View || op.row->promote == graph::Promote::Keep))) return "float8";
  if (complex || graph::is_complex_node(node)) {
    const LoweringRow* row = find_lowering(node);
    bool known = op.family() == Family::View || (row && row->moves);
    if (op.family() == Family::Pointwise) known = graph::find_complex_body(node) != nullptr;
    if (row && row->moves) {
      node.for_each_input(
          [&](Value* v) { known &= is_complex(v->type.dtype) || (row->gathers && v != node.input(0)); });
    }
    if (!known) return "complex numbers";
    if (op.family() == Family::Pointwise) return "";
  }
  switch (op.family()) {
    case Family::Pointwise:
      if (!op.row->body) return "no body";
      if (node.results.size() != 1 || !node.results[0]) return "several results";
      return graph::has_body_for(*op.row, node.named()) ? "" : "no body for these types";
    case Family::View: return op.row->view ? "" : "a view without an index map";
    case Family::Reduction:
      if (!reduction_shape(node, &why)) return why.empty() ? "no lowering" : why;
      return "";
    case Family::Indexed:
    case Family::Factory: {
      const LoweringRow* row = find_lowering(node);
      if (!row || !row->element) return "no lowering";
      return !row->accepts || row->accepts(node) ? "" : "no lowering for these arguments";
    }
    case Family::Composite: return "not decomposed";
    case Family::Scan: return scan_shape(node, &why) ? "" : why;
    case Family::Scatter: return update_of(node, &why) ? "" : why;
    case Family::Extern: return "library op";
  }
  return "no lowering";
}

}  // namespace vesta::loops
