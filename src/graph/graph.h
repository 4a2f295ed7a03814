// The graph: a straight-line program of ATen operators on tensors, in SSA form.
//
// Contract
//   - Nodes are pure, apart from kRandom rows: tracing has turned mutation into new values and a list of copies at the
//     end (`mutations`); no node reads or writes a tensor through an alias.
//   - Order is a topological order; among kRandom nodes it is the program's order.
//   - Every tensor value carries its exact eager type: dtype, device, sizes and strides. Passes may change how a value
//     is computed and the strides of *inner* values; the types of graph outputs and of mutations are binding.
//   - Sizes, strides and integer arguments are Expr over the symbols of `context`. A size symbol stands for a value
//   >= 2.
//   - View operators (Family::View) move no data; their result has strides as eager's, relative to the viewed storage.
//   - `guards` hold for every run of the graph: the entry points check them (after dtype, dim count, device and
//     sizes of every input), and build another graph when one fails.
#pragma once

#include <deque>

#include "base/totals.h"
#include "graph/op.h"

namespace vesta::graph {

struct TensorType {
  DType dtype = DType::F32;
  std::vector<Expr> sizes;
  std::vector<Expr> strides;
  Device device;
  size_t dim() const { return sizes.size(); }
  bool operator==(const TensorType&) const = default;
};

Expr numel(const TensorType& t);
std::vector<Expr> contiguous_strides(std::span<const Expr> sizes);
bool is_contiguous(const TensorType& t);  // provably, in the sense of at::Tensor::is_contiguous()
bool is_non_overlapping_and_dense(const TensorType& t);

class Value {
 public:
  uint32_t id = 0;           // unique in the graph; printed as %id
  Node* producer = nullptr;  // nullptr: a graph input
  uint32_t result = 0;       // which result of the producer
  TensorType type;
  std::vector<Node*> users;  // one entry per use by a node, maintained by Graph; outputs and mutations are not here
};

class Node {
 public:
  const Op* op = nullptr;
  std::vector<Value*> results;  // an entry may be nullptr (an undefined tensor)
  std::string source;           // where the user's program asked for it, for messages
  // A constant that a pass computes from weights (folded, packed, converted). Its tensor inputs are Parameters or
  // results of other prepacked nodes. It is computed once per version of those Parameters.
  bool prepacked = false;
  bool raises = false;  // its results are not read; it stays for the exception that its call may raise
  std::span<const Arg> args() const { return args_; }
  NodeArgs named() const { return {op->schema, args_}; }
  Value* input(size_t i) const;  // the i-th argument, which must be a Value
  void for_each_input(const std::function<void(Value*)>& fn) const;
  Node* prev = nullptr;
  Node* next = nullptr;

 private:
  friend class Graph;
  std::vector<Arg> args_;
};

enum class InputKind : uint8_t {
  Argument,   // a different tensor on each call
  Parameter,  // the same tensor from call to call, unless its owner rebinds it: weights, buffers, captured tensors
};

struct Input {
  Value* value = nullptr;
  InputKind kind = InputKind::Argument;
  std::string name;  // for texts and messages
  // In every call that the graph serves, the address of the input's first element is a multiple of this many bytes. 1:
  // nothing is known.
  int64_t alignment = 1;
};

// Where a size symbol is read from at run time.
struct SymbolSource {
  Expr symbol;
  int input = -1;  // input tensor's index; -1: the `dim`-th integer argument of the call
  int dim = 0;
  bool stride = false;  // the stride of that dimension instead of its size
};

enum class OutputKind : uint8_t {
  Fresh,      // a new tensor with value's type, owned by the caller
  Input,      // the input itself, the same tensor object (perhaps after its mutation)
  InputView,  // as_strided(input[alias], type.sizes, type.strides, offset) of that input's storage, marked as `pending`
  OutputView,  // the same over output[alias], which is Fresh
  Integer,     // a size: `integer`
  None,        // an undefined tensor
};

struct Output {
  OutputKind kind = OutputKind::Fresh;
  Value* value = nullptr;  // Fresh: what it is; views: a value of equal type, for readers (may be nullptr)
  int alias = -1;
  TensorType type;      // views
  Expr storage_offset;  // views: in elements, from the start of the storage
  bool absolute_offset =
      false;  // true: storage_offset counts from the storage's start; false: from alias's first element
  Expr integer;
  ConjNegBits conj_neg;  // views: of the memory; `value` is what the memory holds
  bool hidden = false;   // Fresh, not returned itself: other outputs are views of it. Comes after those returned.
};

// After the run: inputs[input].copy_(value). The value has the input's sizes and dtype.
struct Mutation {
  int input = -1;
  Value* value = nullptr;
};

enum class Relation : uint8_t { Equal, NotEqual, Less, AtLeast };
struct Guard {
  Expr left;
  Relation relation = Relation::Equal;
  Expr right;
  std::string source;  // the user's line, or the rule that asked
};

class Graph {
 public:
  Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  std::shared_ptr<ExprContext> context;
  std::vector<Input> inputs;
  std::vector<SymbolSource> symbols;
  std::vector<Output> outputs;
  std::vector<Mutation> mutations;
  std::vector<Guard> guards;

  Value* add_input(TensorType type, InputKind kind, std::string name);
  // Appends, or inserts before `before`. `types` gives the results; args are copied.
  Node* add_node(const Op& op, std::vector<Arg> args, std::vector<TensorType> types, Node* before = nullptr);
  void set_arg(Node* node, size_t i, Arg arg);
  // Replaces uses in nodes, outputs and mutations. `to` must come before every user.
  void replace_uses(Value* from, Value* to);
  // Requires that no result is used.
  void erase(Node* node);
  bool is_result(const Value* v) const;  // of an output or a mutation
  bool is_used(const Value* v) const { return !v->users.empty() || is_result(v); }

  Node* first() const { return first_; }
  Node* last() const { return last_; }
  size_t node_count() const { return count_; }
  int64_t bytes() const;  // an estimate of its memory, erased nodes included
  // `fn` may erase the current node and may insert nodes before it.
  template <class F>
  void for_each_node(F&& fn) const {
    for (Node* n = first_; n;) {
      Node* next = n->next;
      fn(n);
      n = next;
    }
  }
  uint32_t value_count() const { return next_value_; }
  // Numbers values 0, 1, ... in the order in which the text names them.
  void renumber();

 private:
  void link(Node* node, Node* before);
  void unlink(Node* node);
  void add_uses(Node* node, const Arg& arg);
  void drop_uses(Node* node, const Arg& arg);
  std::deque<Node> nodes_;
  std::deque<Value> values_;
  Node* first_ = nullptr;
  Node* last_ = nullptr;
  size_t count_ = 0;
  uint32_t next_value_ = 0;
  totals::KeptBytes held_{totals::Memory::Graphs};
};

// Adds nodes by name at one place and infers their types by the operator's own shape rule. For decompositions, passes
// and tests.
class Builder {
 public:
  explicit Builder(Graph& graph, Node* before = nullptr) : graph_(&graph), before_(before) {}
  Graph& graph() { return *graph_; }
  // Missing trailing arguments take the schema's defaults; `named` sets arguments by name.
  Node* node(std::string_view op, std::vector<Arg> args, std::vector<std::pair<std::string_view, Arg>> named = {});
  Value* operator()(std::string_view op, std::vector<Arg> args,
                    std::vector<std::pair<std::string_view, Arg>> named = {}) {
    return node(op, std::move(args), std::move(named))->results.at(0);
  }
  std::string source;

 private:
  Graph* graph_;
  Node* before_;
};

// The types of a node's results, by the shape rule of its row or of its family. Throws Unsupported if the operator has
// no rule.
std::vector<TensorType> infer_types(const Op& op, std::span<const Arg> args, Guards& guards);
// Guards that first try to prove. A comparison that cannot be proven is answered by the hints and becomes a guard of
// the graph.
class GraphGuards : public Guards {
 public:
  explicit GraphGuards(Graph& graph) : graph_(&graph) {}
  bool equal(Expr a, Expr b) override;
  bool less(Expr a, Expr b) override;
  int64_t specialize(Expr e) override;
  std::string source;

 private:
  Graph* graph_;
};

// Text form; parse(print(g)) is g up to value numbers. Grammar in docs/graph-text.md. parse throws UserError with line
// and column.
std::string print(const Graph& graph);
std::unique_ptr<Graph> parse(std::string_view text);
// Throws InternalError naming the first broken rule of the contract and the node that breaks it.
void verify(const Graph& graph);

}  // namespace vesta::graph
