#include "graph/work.h"

#include <algorithm>
#include <unordered_map>

#include "base/split.h"
#include "graph/rules/body_walk.h"
#include "graph/rules/complex.h"

namespace vesta::graph {
namespace {

// Adds up the cost of a body.
class CostOfBody final : public BodyWalk {
 public:
  int total = 0;

 private:
  void visit(Prim p, DType) override { total += cost(p); }
};

double elements(const TensorType& t) {
  double n = 1;
  for (const Expr e : t.sizes) n *= static_cast<double>(hint(e));
  return n;
}

// ---- Library calls whose work is products, by operator. `row` says which operand's sizes count.

struct ProductRow {
  const char* names;
  double (*products)(const Node& node, size_t operand);
  size_t operand;
};

// Each element of the result is a sum along the operand's last dimension.
double sums(const Node& n, size_t operand) {
  const TensorType& x = n.named().tensor(operand);
  return elements(n.results[0]->type) * (x.sizes.empty() ? 1.0 : static_cast<double>(hint(x.sizes.back())));
}
// The same, added up over a batch.
double batched_sums(const Node& n, size_t operand) {
  return sums(n, operand) * static_cast<double>(hint(n.named().tensor(operand).sizes[0]));
}
// Each element of the result is a sum over a filter; of a transposed convolution, each element of the input is spread.
double convolution(const Node& n, size_t operand) {
  const TensorType& w = n.named().tensor(operand);
  const TensorType& over = n.named().boolean("transposed") ? n.named().tensor(0) : n.results[0]->type;
  return elements(over) * elements(w) / std::max(1.0, static_cast<double>(hint(w.sizes[0])));
}
// The scores, and their product with the values.
double attention(const Node& n, size_t operand) {
  const TensorType& keys = n.named().tensor(operand);
  return 2 * elements(n.named().tensor(0)) * static_cast<double>(hint(keys.sizes[keys.dim() - 2]));
}

constexpr ProductRow kProducts[] = {
    {"aten::mm aten::bmm aten::matmul aten::mv aten::dot aten::vdot aten::linear aten::_scaled_mm aten::_scaled_mm_v2",
     sums, 0},
    {"aten::addmm aten::_addmm_activation aten::baddbmm aten::addmv", sums, 1},
    {"aten::addbmm", batched_sums, 1},
    {"aten::convolution", convolution, 1},
    {"aten::_scaled_dot_product_flash_attention aten::_scaled_dot_product_efficient_attention "
     "aten::_scaled_dot_product_cudnn_attention aten::_scaled_dot_product_flash_attention_for_cpu",
     attention, 1},
};

const ProductRow* product_row(const Op& op) {
  static const auto* const rows = [] {
    auto* const out = new std::unordered_map<const Op*, const ProductRow*>;
    for (const ProductRow& row : kProducts)
      for (const std::string_view name : vesta::split(row.names, ' ')) (*out)[&get_op(name)] = &row;
    return out;
  }();
  const auto it = rows->find(&op);
  return it == rows->end() ? nullptr : it->second;
}

// ---- Multiplications of one element

constexpr double kReduced = 1;     // of an operand: the combination
constexpr double kComposite = 24;  // of the larger of operands and results: those of softmax and norms take 15 to 25
constexpr double kGathered = 12;   // of a result that loads at computed places
constexpr double kOther = 16;      // of operands and results of a library call that is no product

bool has_body(const Node& node) {
  if (is_complex_node(node)) return find_complex_body(node);
  return node.op->row->body && has_body_for(*node.op->row, node.named());
}

// By family; a library call if it is none that kernels compute.
void add_multiplications(Work& w, const Node& node, double operands, double results) {
  w.fuses = true;
  switch (node.op->family()) {
    case Family::View: return;
    case Family::Factory: w.multiplications = results; return;
    case Family::Reduction: w.multiplications = kReduced * operands; return;
    case Family::Composite: w.multiplications = kComposite * std::max(operands, results); return;
    case Family::Indexed: w.multiplications = kGathered * results; return;
    case Family::Pointwise:
      if (!has_body(node)) break;
      w.multiplications = pointwise_cost(node) * results;
      return;
    case Family::Scan:
    case Family::Scatter:
    case Family::Extern: break;
  }
  w.fuses = false;
  const ProductRow* const row = product_row(*node.op);
  w.multiplications = row ? row->products(node, row->operand) : kOther * (operands + results);
}

}  // namespace

int pointwise_cost(const Node& node) {
  const NodeArgs args = node.named();
  std::vector<ScalarRef> x;
  for (const PointwiseOperand& o : pointwise_types(*node.op->row, args).operands) x.push_back({0, o.to});
  CostOfBody body;
  if (!is_complex_node(node)) {
    node.op->row->body(body, args, x);
    return body.total;
  }
  std::vector<ScalarPair> pairs;
  for (const ScalarRef r : x) pairs.push_back({{0, real_of(r.dtype)}, {0, real_of(r.dtype)}});
  find_complex_body(node)(body, args, pairs);
  return body.total;
}

int64_t memory_bytes(const TensorType& type) {
  int64_t last = 0;
  for (size_t d = 0; d < type.dim(); ++d) {
    const int64_t size = hint(type.sizes[d]);
    if (size == 0) return 0;
    last += (size - 1) * hint(type.strides[d]);
  }
  return (last + 1) * element_size(type.dtype);
}

Work work_of(const Node& node) {
  Work w;
  double operands = 0, results = 0;
  node.for_each_input([&](const Value* v) {
    operands += elements(v->type);
    w.bytes += memory_bytes(v->type);
  });
  for (const Value* v : node.results) {
    if (!v) continue;
    results = std::max(results, elements(v->type));
    w.bytes += memory_bytes(v->type);
  }
  if (!node.results.empty() && node.results[0]) w.compute = opmath(node.results[0]->type.dtype);
  add_multiplications(w, node, operands, results);
  // Products of half types are the fast ones.
  if (!w.fuses && !node.results.empty() && node.results[0]) w.compute = node.results[0]->type.dtype;
  return w;
}

// ---- Speeds

namespace {

// Of a CPU's lane, which schedule/cpu_loops.cpp counts with too. A library reaches half as many products.
constexpr double kLanePerNs = 2.5, kLaneProductsPerNs = 1.25;
// Of one multiprocessor of a GPU: as an H100 has them. Products of halves: schedule/cuda/products.cpp measured them.
constexpr double kMultiprocessorPerNs = 128, kHalfProductsPerNs = 2900;
constexpr double kCallNs = 1200;  // of a library call, besides its work

}  // namespace

Speeds::Speeds(const Target& t)
    : gpu_(t.device == DeviceType::CUDA),
      threads_(std::max(1, t.threads)),
      vector_bytes_(static_cast<double>(t.vector_bytes)),
      memory_(gpu_ ? t.memory_bytes_per_ns : t.memory_bytes_per_ns * threads_),
      cache_(gpu_ ? t.cache_bytes_per_ns : t.cache_bytes_per_ns * threads_),
      cache_bytes_(t.l2_bytes) {}

double Speeds::bytes_per_ns(int64_t working_set) const { return working_set > cache_bytes_ ? memory_ : cache_; }

double Speeds::multiplications_per_ns(DType compute) const {
  const auto size = static_cast<double>(std::max<int64_t>(4, element_size(compute)));
  if (gpu_) return threads_ * kMultiprocessorPerNs * 4 / size;
  return threads_ * kLanePerNs * std::max(1.0, vector_bytes_ / size);
}

double Speeds::products_per_ns(DType compute) const {
  if (gpu_ && is_narrow(compute)) return threads_ * kHalfProductsPerNs;
  return gpu_ ? multiplications_per_ns(compute) : multiplications_per_ns(compute) * kLaneProductsPerNs / kLanePerNs;
}

double Speeds::nanoseconds(const Work& w) const {
  if (w.fuses) return w.multiplications / multiplications_per_ns(w.compute);
  return kCallNs + std::max(w.multiplications / products_per_ns(w.compute), static_cast<double>(w.bytes) / memory_);
}

}  // namespace vesta::graph
