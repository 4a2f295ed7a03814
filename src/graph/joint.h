// Joint graphs: a program and the backward pass of its results in one graph, and its split into two halves.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/backward.h"
#include "graph/graph.h"

namespace vesta::graph {

// Results whose backward passes share something that eager would save. Each part has a node in autograd's graph, which
// saves and frees by itself.
struct JointPart {
  std::vector<int> tangents;  // inputs of the joint graph: the gradients of `results`, then those of `takes`
  // What a tangent is the gradient of: an output of the joint graph, which is Fresh, or, if negative, the contents of
  // the written input -1 - result.
  std::vector<int> results;
  std::vector<int> takes;  // numbers of crossings
  // Outputs of the joint graph: those of `inputs`, then those of `gives`. Fresh, a tangent (Input), or a view of one
  // (InputView).
  std::vector<int> gradients;
  std::vector<int> inputs;  // of the program
  std::vector<int> gives;   // numbers of crossings
};

// A gradient that leaves a part where autograd calls hooks, or where ways of several parts meet. A part takes it, a
// place of hooks, which passes it on, or a leaf that the program has made and returns.
struct Crossing {
  TensorType type;
  int place = -1;          // a number of Joint::places; negative: a part takes it
  int next = -1;           // of a place: the crossing that gets the gradient then, or, if negative, the input -1 - next
  int output = -1;         // the output of the program whose gradient it is, if it has hooks or is a leaf; -1: none
  Value* value = nullptr;  // what it is the gradient of; nullptr: unknown
};

// A part of the program whose values the backward pass computes again (torch.utils.checkpoint): values with these ids,
// from `first` up to `end`.
struct CheckpointRegion {
  uint32_t first = 0, end = 0;
};

// The graph's inputs are the program's, then from `first_tangent` on the tangents. Its outputs are the program's, then
// from `first_gradient` on the gradients. Only nodes from `first_backward` on (nullptr: none) are of the backward pass.
struct Joint {
  std::vector<JointPart> parts;  // each gives to earlier ones, and to places whose `after` is no more than its number
  std::vector<Crossing> crossings;
  std::vector<HookPlace> places;
  size_t first_tangent = 0;
  size_t first_gradient = 0;
  std::vector<History> histories;        // by output of the program that is returned
  std::vector<ReleasedResult> released;  // each leads to earlier ones of these alone
  Node* first_backward = nullptr;
  // The program's nodes have its derivatives of every order, if each runs under autograd: a node aten::detach stands
  // where it reads a value without its history.
  bool is_differentiable = false;
  std::vector<CheckpointRegion> checkpoints;  // in the order of their ids; no two share a value
};

struct BackwardHalf {
  // Its inputs are the saved tensors, then the tangents; its integer arguments are the sizes (Halves::sizes). Its
  // outputs are the gradients, each value once.
  std::unique_ptr<Graph> graph;
  std::vector<int> saved;         // indices of Halves::saved
  std::vector<int> results;       // as JointPart::results, of the forward half
  std::vector<int> inputs;        // of the forward half
  std::vector<int> gradients;     // per gradient, an output of `graph`
  std::vector<int> takes, gives;  // as those of JointPart
};

struct Halves {
  // Its outputs are the program's, all shown (Output::hidden), then saved tensors, then sizes.
  std::unique_ptr<Graph> forward;
  size_t returned = 0;  // outputs that the program returns
  std::vector<Saved> saved;
  std::vector<int> sizes;  // outputs of the forward half, integers
  std::vector<BackwardHalf> backward;
  // Per crossing, the sizes of its gradient: each a number, or, if negative, the integer output -1 - size.
  std::vector<std::vector<int64_t>> crossing_sizes;
};

// The number of the checkpoint region that a value is in; -1: it is in none.
int checkpoint_of(const Joint& joint, const Value& v);
// Whether a second run has no effect and gives equal results.
bool can_run_again(const Graph& graph);

// The node that gives a value without its history. Between the trace and the split of a joint graph alone.
const Op& detach_op();
// The node that gives a value with another history, that of another tensor. Between the trace and the split alone, too.
const Op& alias_op();
// Whether the graph has such nodes; and replaces the results of all of them by what they detach, or are aliases of.
bool has_history_nodes(const Graph& graph);
void drop_history_nodes(Graph& graph);
// A copy of the program of a joint graph, without its backward pass. After the program's outputs it has the values of
// the crossings.
std::unique_ptr<Graph> copy_program(Graph& graph, const Joint& joint);
// What is drawn as floats that are zeros and ones (a mask of dropout) can be saved as booleans: adds to the graph, for
// each, the booleans and the floats that are made of them, for all that reads it.
void narrow_masks(Graph& joint);
// Attention without dropout returns a random state in the CPU's memory that its backward pass takes and does not read.
// Gives it a zero on the GPU instead, so that CUDA graphs may contain both.
void replace_unread_random_states(Graph& joint);
// Batch norm in training needs its running statistics for their update alone. Separates the update from the results
// that the rest of the program and its backward pass read, so that no copy of the statistics is saved, and the update
// can be written in place, after the last call of an operator. Call it only if operators are decomposed afterwards:
// otherwise batch norm would run twice.
void separate_running_statistics(Graph& graph, const Joint& joint);
// Finds each softmax of the forward pass whose result has a wider type than its operand, as in the f32 loss of bf16
// logits. Eager saves the wide result. Those in checkpoint regions are not found.
std::vector<Node*> find_wide_softmax(const Graph& graph, const Joint& joint);
// Replaces these nodes with softmax's formula. Then the partitioner can save the narrow operand and two numbers for
// each row.
void divide_softmax(Graph& joint, std::span<Node* const> nodes);

// Consumes the joint graph. `saved`: what the backward halves read of the forward half, besides views of it. `copied`:
// the part of `saved` that the forward half copies; the backward halves read the copies. See choose_saved().
Halves split(std::unique_ptr<Graph> graph, const Joint& joint, std::span<Value* const> saved,
             std::span<Value* const> copied = {});

}  // namespace vesta::graph
