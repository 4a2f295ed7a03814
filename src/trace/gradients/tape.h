// The tape: a program as a list of its calls of torch. Each operator is on it as it arrived, whole, in order, in place
// or as a view. The graph says what is computed; the tape allows the same calls under another interpreter of operators,
// such as autograd. It holds no real tensor.
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

// A tensor object of the program, numbered in the order in which the program got or made it.
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
  // One for each of the graph's inputs. Inputs that are one tensor object are one TapeTensor.
  std::vector<TapeTensor> inputs;
  std::vector<std::vector<Expr>> input_sizes;
  // The results of the program: tensors, integers, None; and which of them require a gradient.
  std::vector<TapeArg> outputs;
  std::vector<bool> outputs_require_grad;
  int tensor_count = 0;
  // Of the graph. Expressions live as long as their context.
  std::shared_ptr<ExprContext> context;
  std::vector<graph::SymbolSource> symbols;
};

}  // namespace vesta::trace
