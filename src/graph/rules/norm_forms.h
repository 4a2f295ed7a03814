// Arithmetic that the norms and their gradients share.
#pragma once

#include "graph/rules/broadcast.h"

namespace vesta::graph {

struct Standardized {
  Value* normal;  // (x - mean) * rstd
  Value* mean;    // reduced dimensions kept
  Value* rstd;
  Value* variance;  // biased
};
Standardized standardize(Builder& b, Value* x, const IntList& dims, double eps);
// Standardizes each channel (dimension 1) of a batch. If x is in channels-last on a GPU, one kernel reads x once and
// computes the mean and variance of each part of a channel. A second kernel combines them (T. F. Chan, G. H. Golub,
// R. J. LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979).
Standardized standardize_batch(Builder& b, Value* x, double eps);

// The number of elements that share a channel (dimension 1).
Expr elements_of_channel(const TensorType& x);

// v * weight + bias in v's type; either may be absent.
Value* scale_and_shift(Builder& b, Value* v, Value* weight, Value* bias);

void native_layer_norm_backward(const NodeArgs& args, Guards& g, std::vector<TensorType>& results);
void native_group_norm_backward(const NodeArgs& args, Guards& g, std::vector<TensorType>& results);
void native_batch_norm_backward(const NodeArgs& args, Guards& g, std::vector<TensorType>& results);
std::vector<Value*> layer_norm_backward_form(Builder& b, const Node& node);
std::vector<Value*> group_norm_backward_form(Builder& b, const Node& node);
std::vector<Value*> batch_norm_backward_form(Builder& b, const Node& node);

// The gradients that `output_mask` asks for; ATen leaves the others undefined.
std::vector<TensorType> only_asked(const NodeArgs& args, std::vector<TensorType> gradients);

}  // namespace vesta::graph
