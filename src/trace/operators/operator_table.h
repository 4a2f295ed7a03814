// What tracing does with each of torch's operators: decided once per operator from its schema, kernels, tags and op
// row.
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
  Mutate,      // the functional counterpart, then writes
  Special,     // `handler`
  NeedsValue,  // the result depends on tensors' contents
  Refuse,      // `reason`
};

struct Operator {
  explicit Operator(const c10::OperatorHandle& h) : handle(h) {}

  c10::OperatorHandle handle;
  const graph::Op* op = nullptr;
  const OperatorRow* row = nullptr;  // of the trace's own table (ops/rows.h)
  Treatment treatment = Treatment::Refuse;
  c10::DispatchKey composite = c10::DispatchKey::Undefined;  // which composite kernel it has, if any
  Handler handler = nullptr;
  std::string reason;

  size_t arg_count = 0;
  size_t return_count = 0;
  bool returns_tensors_only = false;
  bool custom = false;   // not ATen's: what it does is opaque, it may read values
  bool factory = false;  // takes no tensor, makes one
  bool random = false;   // draws from a generator
  bool meta_in_python = false;

  // Mutate: functional argument i is own argument functional_args[i] (-1: what the out= tensor says by its name); the
  // functional's results are first this operator's fresh results, then the new contents of the arguments in `mutated`.
  const Operator* functional = nullptr;
  std::vector<int> functional_args;
  std::vector<int> mutated;
  bool copies_arguments = false;  // the functional is a functional_form()
  bool out_variant = false;       // mutated arguments are results only: they may be resized
  std::vector<int> return_alias;  // per return: the own argument returned, or -1 for a fresh result
  int view_source = -1;           // View: the argument viewed
};

const Operator& operator_for(const c10::OperatorHandle& handle);
const Operator* find_operator(const char* name, const char* overload);

}  // namespace vesta::trace
