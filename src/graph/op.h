// Operators. Every operator has a schema. An operator that Vesta understands also has one row in the op table
// (src/graph/ops/, a file per family): shape rule, body, decomposition, layout rule. Later stages have tables of their
// own, keyed by the same name, in files of the same name: src/loops/ops (lowering), src/trace/ops (special handlers),
// src/runtime/ops (direct calls).
//
// Guarantees that an operator without a row works: it is an extern call into ATen, which is never fused. A row may not
// change what eager computes, and no code outside the tables may list operators by name.
#pragma once

#include "base/prim.h"
#include "graph/schema.h"

namespace vesta::graph {

class Graph;
class Node;
class Builder;
struct TensorType;

// ---- What a row's functions see -----------------------------------------------------------------------------------

// A real scalar in the body of a fused kernel: its compute type and a handle that the ScalarBuilder owns. A complex
// scalar is a ScalarPair.
struct ScalarRef {
  uint32_t id = UINT32_MAX;
  DType dtype = DType::Other;
};

// Emits primitives. src/loops implements it (into a dag), and tests do (an interpreter over doubles).
class ScalarBuilder {
 public:
  virtual ~ScalarBuilder() = default;
  virtual ScalarRef constant(DType t, double v) = 0;
  virtual ScalarRef integer(DType t, int64_t v) = 0;  // integer and Bool types
  virtual ScalarRef size(DType t, Expr e) = 0;        // a symbolic integer (or loop index) as a scalar of type t
  virtual ScalarRef emit(Prim p, std::span<const ScalarRef> operands) = 0;
  virtual ScalarRef cast(DType to, ScalarRef x) = 0;  // C's; float to integer as ATen's CPU kernels do; to Bool: x != 0

  // Conveniences over the above.
  ScalarRef un(Prim p, ScalarRef a) { return emit(p, {{a}}); }
  ScalarRef bin(Prim p, ScalarRef a, ScalarRef b) {
    ScalarRef v[] = {a, b};
    return emit(p, v);
  }
  ScalarRef select(ScalarRef c, ScalarRef a, ScalarRef b) {
    ScalarRef v[] = {c, a, b};
    return emit(Prim::Select, v);
  }
};

// The view of a node that shape rules and bodies get: arguments by schema name or position.
class NodeArgs {
 public:
  NodeArgs(const Schema& schema, std::span<const Arg> args) : schema_(&schema), args_(args) {}
  const Schema& schema() const { return *schema_; }
  size_t size() const { return args_.size(); }
  const Arg& operator[](size_t i) const { return args_[i]; }
  std::span<const Arg> all() const { return args_; }
  const Arg& get(std::string_view name) const;  // InternalError if the schema has no such argument
  bool has(std::string_view name) const;        // the schema has it and it is not None
  const TensorType& tensor(size_t i) const;     // InternalError unless a Value
  const TensorType& tensor(std::string_view name) const;
  Expr integer(std::string_view name) const;
  const IntList& integers(std::string_view name) const;
  double number(std::string_view name) const;  // Float or real Scalar
  bool boolean(std::string_view name) const;
  DType dtype(std::string_view name, DType otherwise) const;  // `otherwise` for None
  const std::string& string(std::string_view name) const;

 private:
  const Schema* schema_;
  std::span<const Arg> args_;
};

// ---- Rows -----------------------------------------------------------------------------------------------------------

enum class Family : uint8_t {
  Pointwise,  // result[i] = body(args[i] broadcast)
  View,       // no data moves: result[i] = input[map(i)]
  Reduction,  // reduces dimensions of one tensor with one ReduceOp
  Composite,  // replaced by other nodes (decompose) before lowering
  Indexed,    // result[i] is a body with loads at computed places (gather, embedding, index, cat, pad, pooling, ...)
  Factory,    // result[i] from i alone (arange, full, eye, tril_indices)
  Scan,       // cumsum, cumprod, ... along one dimension
  Scatter,    // writes at computed places
  Extern,     // an ATen call; the row only gives the shape rule
};

// The dtype that a pointwise operator computes in and the dtype of its result, from its arguments (PyTorch's type
// promotion).
enum class Promote : uint8_t {
  Default,  // promoted type of the tensors and scalars, result the same
  Float,    // integers and Bool become the default dtype; result the same
  Compare,  // computed in the promoted type, result Bool
  Logical,  // each argument becomes Bool, result Bool
  First,    // the first tensor's type, result the same
  Select,   // where: condition Bool, the others promoted
  Keep,     // no promotion; the body is given the arguments' own types and states its result through `result`
};

// Answers the questions of shape rules, which compute the types of results. Sizes may be symbolic, so a rule compares
// them through Guards. Where the user's shapes do not fit, a rule throws UserError; the program then runs eager, which
// raises its own message.
class Guards {
 public:
  virtual ~Guards() = default;
  // The truth of a comparison under the hints. Unless it is provable, it becomes a guard.
  virtual bool equal(Expr a, Expr b) = 0;
  virtual bool less(Expr a, Expr b) = 0;
  // The value of e under the hints, recorded as the guard e == value.
  virtual int64_t specialize(Expr e) = 0;
};
using ShapeRule = void (*)(const NodeArgs& args, Guards& guards, std::vector<TensorType>& results);

// Operands are cast to the compute type before the body gets them (opmath of the promoted type; the arguments' own
// types for Keep). They come in schema order: one ScalarRef for each tensor and for each Scalar argument that takes
// part in promotion. pointwise_types() in rules/operands.h lists them, with the type through which each is cast. The
// caller casts the result to the result type.
using PointwiseBody = ScalarRef (*)(ScalarBuilder& b, const NodeArgs& args, std::span<const ScalarRef> x);

// A complex number, or a real one where `im` is undefined.
struct ScalarPair {
  ScalarRef re, im;
  bool complex() const { return im.id != UINT32_MAX; }
};
// A PointwiseBody for complex numbers. Each operand is a pair of the real type of its compute type. Where the operator
// computes in complex numbers, a real operand has the imaginary part 0, as eager's conversion gives it.
using ComplexBody = ScalarPair (*)(ScalarBuilder& b, const NodeArgs& args, std::span<const ScalarPair> x);

// The element of the viewed tensor that element `index` of the result shows.
using ViewMap = std::vector<Expr> (*)(const NodeArgs& args, const TensorType& result, std::span<const Expr> index);
// Functionalization: the nodes that write `value` (shaped like the view) back into `base`. nullptr: the view is not
// writable.
using ViewInverse = Value* (*)(Builder& b, const NodeArgs& args, Value* base, Value* value);

// Emits replacement nodes; returns one value for each result, or an empty vector to leave the node as it is.
using Decompose = std::vector<Value*> (*)(Builder& b, const Node& node);

enum RowFlag : uint32_t {
  kRandom = 1u << 0,  // draws from a generator: never removed, merged or reordered among its like
  kWideScalars =
      1u << 1,  // Pointwise: Scalars and 0-d tensors are not rounded to a half type before opmath (add, mul, ...)
  kIntegerByConstant =
      1u << 2,  // Pointwise: has a body for integers only if the last operand is a positive constant (x / 0 raises)
  kMayRaise = 1u << 3,  // its call checks values, or more of its arguments than the row's rule does
  kFloat8 = 1u << 4,    // has kernels for float8 tensors, as every view has; other operators on them are not traced
  kComplexSquare = 1u << 5,  // Pointwise: the complex body squares; other exponents have none
  kIgnoresFirst = 1u << 6,   // the first operand gives the result's type; its elements are not read
  kUninitialized = 1u << 7,  // the elements of the result are undefined
};

// Categories of compute types for which eager has a kernel; a row's rule throws UserError for others.
enum TypeCategory : uint8_t { kBoolType = 1, kIntegerType = 2, kFloatType = 4, kComplexType = 8, kFloat8Type = 16 };
inline constexpr uint8_t kAnyType = kBoolType | kIntegerType | kFloatType | kComplexType;
inline constexpr uint8_t kRealNumber = kIntegerType | kFloatType;
inline constexpr uint8_t kNotComplex = kAnyType & ~kComplexType;

// The role by which graph passes recognize an operator, whichever of its overloads it is.
enum class Role : uint8_t {
  None,
  Fill,       // every element is the argument `fill_value`, or `s`
  Zeros,      // every element is 0
  Ones,       // every element is 1
  Reshape,    // a view of all elements in the same row-major order
  Permute,    // a view with the dimensions in another order (view_permutation)
  Part,       // a view of some elements, which are all where its type is that of the tensor
  BatchNorm,  // arguments as aten::native_batch_norm names them
  Attention,  // one of the attention kernels of CUDA
};

// What becomes of an operator whose operands change from contiguous to channels-last memory.
enum class LayoutRule : uint8_t {
  None,     // its operands must have eager's strides
  Follows,  // given channels-last, it computes the same and gives channels-last, in ATen and in kernels
  Ignores,  // its result does not depend on the order of the memory that it reads
};

struct OpRow {
  const char* names;  // "aten::add.Tensor", or the names of several operators with blanks between them
  Family family = Family::Extern;
  Promote promote = Promote::Default;
  ShapeRule shape = nullptr;  // nullptr: derived from the family (Pointwise: broadcast and TensorIterator strides)
  PointwiseBody body = nullptr;
  ComplexBody complex = nullptr;  // nullptr: an extern call for complex numbers
  ViewMap view = nullptr;
  ViewInverse inverse = nullptr;
  Decompose decompose = nullptr;
  ReduceOp reduce = ReduceOp::Sum;
  uint32_t flags = 0;
  uint8_t accepts = kAnyType;
  Role role = Role::None;
  LayoutRule layout = LayoutRule::None;  // Pointwise rows follow and reductions ignore, whatever this says
};

struct Op {
  std::string name;
  Schema schema;
  const OpRow* row = nullptr;  // nullptr: extern, shape known only to ATen
  bool has(RowFlag f) const { return row && (row->flags & f); }
  Family family() const { return row ? row->family : Family::Extern; }
  Role role() const { return row ? row->role : Role::None; }
  LayoutRule layout_rule() const;
  bool takes_float8() const { return family() == Family::View || has(kFloat8); }
};

// The registry is process-wide and thread-safe; an Op lives as long as the process. ops/schemas.inc holds the schemas
// of all rows, so texts parse without torch. The tracer declares the schema of any other operator that it meets.
const Op* find_op(std::string_view name);            // nullptr if unknown
const Op& get_op(std::string_view name);             // InternalError if unknown
const Op& declare_op(std::string_view schema_text);  // adds it, or returns the one declared before

}  // namespace vesta::graph
