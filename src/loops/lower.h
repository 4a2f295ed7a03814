// Lowering: from graph values to scalars. It computes the element of a value at an index by recursion through the nodes
// that compute the value.
//
// Views rewrite the index, pointwise nodes run their row's body, indexed nodes load at computed indices (ops/rows.h).
// The recursion ends at values held in buffers (a Load), at reductions and scans that this kernel computes (a Result or
// Scan at their index map), and at factories. Half-precision values stay in F32 between fused nodes. They are rounded
// where they are stored and where the program converts explicitly, or everywhere if the program asks for it
// (docs/numerics.md).
//
// The lowering may not choose loops, groups or buffers: the schedule tells it through BufferLookup which values are in
// memory.
#pragma once

#include <stdexcept>
#include <utility>

#include "graph/graph.h"
#include "loops/dag.h"

namespace vesta::loops {

// The type in which scalars of a dtype are computed. For a complex dtype, the type of each part.
DType scalar_type(DType t);

// A value in memory: element i is at offset + sum(i[d] * strides[d]) of the buffer. A complex number is two elements of
// its real type, and strides count such elements.
struct MemoryRef {
  DagBuffer buffer;
  std::vector<Expr> strides;
  Expr offset;
};

// Resolves one of `dims` dimensions, counted from the end where negative. nullopt: it is not constant or out of range.
std::optional<size_t> constant_dim(Expr dim, size_t dims);
// The node's `dim` argument as a dimension of its result.
std::optional<size_t> constant_dim(const graph::Node& node);

// How a reduction reads its operand.
struct ReductionShape {
  ReduceOp op = ReduceOp::Sum;
  std::vector<bool> reduced;  // per dimension of the operand
  bool keep = false;          // the result has the reduced dimensions with size 1
  DType compute = DType::F32;
};
// nullopt: not a reduction this stage can lower; `why` (if given) gets the reason.
std::optional<ReductionShape> reduction_shape(const graph::Node& node, std::string* why = nullptr);

// The operands of a matrix product: element (i..., n) of the result is the sum over k of element (i..., k) of `rows`
// times element (n, k) of `columns`, times the scales, plus the bias. Its reduction has the dimensions i..., n and k;
// k may be several dimensions where `columns` lies in panels. Scales and bias may be null; they are broadcast to the
// result.
struct ProductOperands {
  const graph::Value *rows = nullptr, *columns = nullptr, *bias = nullptr;
  bool columns_last = false;  // `columns` has the dimensions (k, n)
  const graph::Value *row_scale = nullptr, *column_scale = nullptr;
  // `columns` has the dimensions (panel, k..., element n of the panel). The last k of BF16 is two dimensions: the
  // number of a pair before n, and the element of the pair after it.
  bool in_panels = false;
  size_t inner = 1;  // dimensions that are summed over: k...
  size_t batch = 0;  // leading dimensions of `rows` that `columns` has too: each has a product of its own
};
// What is applied to the sums: those of the scales and the bias that there are.
std::vector<const graph::Value*> applied_to_sums(const ProductOperands& operands);
// nullopt: the operator is no such product, or not of operands with enough dimensions.
std::optional<ProductOperands> product_operands(const graph::Node& node);
// The sizes of a reduction's operand, also of a product.
std::vector<Expr> reduced_sizes(const graph::Node& node);

// A running combination along one dimension.
struct ScanShape {
  ReduceOp op = ReduceOp::Sum;
  size_t dim = 0;
  DType compute = DType::F32;
};
std::optional<ScanShape> scan_shape(const graph::Node& node, std::string* why = nullptr);

// Where the kernel that is being built computes a reduction or scan.
struct IndexMap {
  std::vector<Expr> kept;  // reductions: the only index at which the result may be read, without the reduced dimensions
  std::vector<Expr> operand;  // the operand's index at the current element of the loops
  // A reduction in two kernels: the first stores partial results, the second combines them.
  const MemoryRef* partials = nullptr;  // second kernel: where they are; read at (chunk, kept...)
  Expr chunk;
};

// Whether the node is an aten::gather of one element along its dimension. Such a gather is lowered as a sum over that
// dimension in which only the wanted element counts, so it fuses with the reductions of the same rows (cross-entropy).
// In a kernel that does not compute the sum, it is lowered like any other gather.
bool is_one_hot_gather(const graph::Node& node);

class BufferLookup {
 public:
  virtual ~BufferLookup() = default;
  virtual const MemoryRef* memory_of(const graph::Value* v) const = 0;   // nullptr: computed in this kernel
  virtual const IndexMap* index_map(const graph::Node* node) const = 0;  // nullptr: not computed in this kernel
};

// Thrown where the kernel cannot be built this way. The schedule then groups differently.
struct CannotFuse : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Lowering {
 public:
  using ScalarRef = graph::ScalarRef;
  using Index = std::span<const Expr>;
  struct Manner {
    bool rounds = false;          // rounds every half-precision value, stored or not, as eager does
    bool asserts_places = false;  // the kernel checks the indices that index tensors hold; otherwise they are checked
                                  // before it runs (index_checks)
    bool adds_atomically =
        false;  // updates for which adds_in_any_order() holds add atomically; all their dimensions are then parallel
  };
  Lowering(Dag& dag, const BufferLookup& buffers, const Manner& manner)
      : dag_(dag), buffers_(buffers), manner_(manner) {}
  Lowering(Dag& dag, const BufferLookup& buffers) : Lowering(dag, buffers, Manner{}) {}

  // The element of v at `index`, in scalar_type(v's dtype). Of a complex number it is the part that the current Part
  // selects.
  ScalarRef element(const graph::Value* v, Index index);
  // The same with loads only where `condition` holds. The element must not be used elsewhere.
  ScalarRef element_where(ScalarRef condition, const graph::Value* v, Index index);
  // Result `part` of a reduction or a scan that this kernel computes, at its index map.
  ScalarRef reduction(const graph::Node& node, const IndexMap& map, int part);
  ScalarRef scan(const graph::Node& node, const IndexMap& map, int part);
  // Stores element `at` of what an Update writes into the buffer.
  void update(const graph::Node& node, Index at, const MemoryRef& to, size_t piece = 0);
  // The index that element `at` of an index tensor holds for a dimension of `size`. `wraps`: negative indices count
  // from the end.
  Expr place(const graph::Value* index, Index at, Expr size, bool wraps);
  // A Scalar argument converted to t as ATen converts it.
  ScalarRef number(const graph::Arg& a, DType t);
  Dag& dag() { return dag_; }
  // The nodes computed so far, operands first, without views.
  const std::vector<const graph::Node*>& nodes() const { return nodes_; }

  // While it lives, elements of complex values are their real (0) or imaginary (1) parts. The default is the real
  // parts.
  class Part {
   public:
    Part(Lowering& l, Expr part) : l_(l), before_(std::exchange(l.part_, part)) {}
    ~Part() { l_.part_ = before_; }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    Lowering& l_;
    Expr before_;
  };

  // For rows: comparisons of index expressions, as constants where they are provable.
  ScalarRef less(Expr a, Expr b);
  ScalarRef at_least(Expr a, Expr b);
  ScalarRef in_range(Expr i, Expr begin, Expr end);  // begin <= i < end
  bool is_false(ScalarRef b) const { return is_known(b, false); }
  bool is_true(ScalarRef b) const { return is_known(b, true); }

 private:
  struct Key {
    const graph::Value* value;
    uint32_t mask;
    std::vector<Expr> index;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const;
  };
  bool is_known(ScalarRef b, bool value) const;
  ScalarRef compute(const graph::Value* v, Index index);
  void computed(const graph::Node* node);
  ScalarRef pointwise(const graph::Node& node, const graph::TensorType& type, Index index);
  ScalarRef complex_pointwise(const graph::Node& node, const graph::TensorType& type, Index index);
  ScalarRef operand(const graph::Arg& arg, Index index);
  ScalarRef at_its_index(const graph::Node& node, const graph::Value* v, Index index);
  ScalarRef product(const ProductOperands& operands, const IndexMap& map);
  ScalarRef scan_at_its_index(const graph::Node& node, const graph::Value* v, Index index);

  Dag& dag_;
  const BufferLookup& buffers_;
  const Manner manner_;
  ScalarRef mask_{};
  Expr part_ = 0;
  std::vector<const graph::Node*> nodes_;
  std::unordered_map<Key, ScalarRef, KeyHash> known_;
};

// The index of a broadcast operand: trailing dimensions are aligned, dimensions of size 1 are at 0.
std::vector<Expr> broadcast_index(std::span<const Expr> index, std::span<const Expr> operand_sizes);
Expr linear_index(std::span<const Expr> index, std::span<const Expr> sizes);
std::vector<Expr> delinearize(Expr linear, std::span<const Expr> sizes);
Expr offset_of(const MemoryRef& memory, std::span<const Expr> index);

// Empty if element() can compute the node's results; otherwise the reason why the node stays an ATen call.
std::string why_not_lowered(const graph::Node& node);

}  // namespace vesta::loops
