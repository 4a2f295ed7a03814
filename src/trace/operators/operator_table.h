// Decides what the trace does with each of torch's operators, once per operator, from its schema, kernels, tags, op row
// and its row in ops/rows.h. Guarantees that an operator without any row is traced right or refused with a reason.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

#include "graph/op.h"

namespace vesta::trace {

class Recorder;
struct Operator;
struct OperatorRow;

// Takes the operator's arguments off the stack and leaves its results.
using Handler = void (*)(Recorder& r, const Operator& op, torch::jit::Stack& stack);

enum class Treatment : uint8_t {
  Record,      // a node
  View,        // a node whose result shares the memory of its argument
  Decompose,   // ATen's composite kernel runs and its operators come back to us
  Mutate,      // runs the functional counterpart, then writes
  Special,     // runs `handler`
  NeedsValue,  // the result depends on tensors' contents
  Refuse,      // refused for `reason`
};

struct Operator {
  explicit Operator(const c10::OperatorHandle& h) : handle(h) {}

  c10::OperatorHandle handle;
  const graph::Op* op = nullptr;
  const OperatorRow* row = nullptr;  // of the trace's own table (ops/rows.h)
  Treatment treatment = Treatment::Refuse;
  c10::DispatchKey composite = c10::DispatchKey::Undefined;  // the kind of its composite kernel, if it has one
  Handler handler = nullptr;
  std::string reason;

  size_t arg_count = 0;
  size_t return_count = 0;
  bool returns_tensors_only = false;
  bool custom = false;   // not one of ATen's operators: it is opaque and may read values
  bool factory = false;  // makes a tensor and takes none
  bool random = false;   // draws from a generator
  bool meta_in_python = false;

  // For Mutate. Argument i of the functional operator is argument functional_args[i] of this operator; -1: the out=
  // tensor decides it, by the argument's name. The functional operator returns this operator's fresh results, then the
  // new contents of the arguments in `mutated`.
  const Operator* functional = nullptr;
  std::vector<int> functional_args;
  std::vector<int> mutated;
  bool copies_arguments = false;  // the functional operator is a functional_form()
  bool out_variant = false;       // mutated arguments are results only: they may be resized
  std::vector<int> return_alias;  // per return: the own argument returned, or -1 for a fresh result
  int view_source = -1;           // View: the argument viewed
};

const Operator& operator_for(const c10::OperatorHandle& handle);
const Operator* find_operator(const char* name, const char* overload);

}  // namespace vesta::trace
