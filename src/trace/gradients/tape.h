// A program as it called torch: every operator as it arrived, whole and in order, in place and as a view where it was
// one. Where the graph says what is computed, the tape says how to ask for it again, under another interpreter of
// operators (autograd, say).
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <complex>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "graph/graph.h"

namespace vesta::trace {

// A tensor object of the program: the n-th that it was given or made.
struct TapeTensor {
  int index = -1;
  bool operator==(const TapeTensor&) const = default;
};

struct TapeArg {
  using List = std::vector<TapeArg>;
  std::variant<graph::None, TapeTensor, List, bool, Expr, double, std::complex<double>, std::string, c10::ScalarType,
               c10::Device, c10::MemoryFormat, c10::Layout>
      value;
};

struct TapeCall {
  c10::OperatorHandle op;
  std::vector<TapeArg> args;     // one for each argument of the schema
  std::vector<TapeArg> results;  // one for each return: a tensor, a list of them, or None
  bool grad_mode = true;
};

struct Tape {
  std::vector<TapeCall> calls;
  // One for each of the graph's inputs. Inputs that are one tensor object are one tensor here.
  std::vector<TapeTensor> inputs;
  std::vector<std::vector<Expr>> input_sizes;
  // What the program returned: tensors, integers, None; and which of them require a gradient.
  std::vector<TapeArg> outputs;
  std::vector<bool> outputs_require_grad;
  int tensor_count = 0;
  // Of the graph: expressions live as long as their context.
  std::shared_ptr<ExprContext> context;
  std::vector<graph::SymbolSource> symbols;
};

}  // namespace vesta::trace
