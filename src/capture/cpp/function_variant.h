// One compiled form of a function, or the decision that calls like this one run eager. A variant is immutable once it
// is published.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capture/entry/late_trace.h"
#include "capture/entry/weight_packing.h"
#include "pipeline/backward.h"
#include "runtime/executable.h"
#include "trace/tensors/view_relation.h"
#include "vesta/detail/function.h"

namespace vesta::capture::functions {

struct Shape {
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

struct FunctionVariant {
  int64_t id = 0;   // in events
  std::string key;  // the key of the call's structure and constants
  uint64_t context = 0;
  std::shared_ptr<const runtime::Executable> executable;  // for an eager variant: checks inputs, runs nothing
  std::shared_ptr<pipeline::Background> pending;          // the compile, until take_compiled() has its result
  std::string eager_reason;                               // not empty: such calls run eager
  std::optional<LateTrace> late;                          // an eager variant for lack of time or memory
  std::string failure;             // an error of Vesta's own with symbolic sizes; the variant has none
  std::exception_ptr error;        // what strict mode rethrows for an eager variant; null if the program itself raised
  bool in_grad_mode = false;       // an operator was recorded while gradient mode was on
  std::vector<bool> require_grad;  // by input; it counts where gradients may be recorded
  // A program that records gradients, whose forward half is the executable, and the compiles of its backward halves.
  std::shared_ptr<const runtime::Differentiable> training;
  std::vector<std::shared_ptr<pipeline::BackwardCompiles>> backward;
  std::shared_ptr<WeightPacking> packing;
  std::vector<trace::ViewRelation> views;
  std::vector<at::Tensor> lifted;  // tensors that the program captured: the executable's last inputs
  std::shared_ptr<const std::vector<c10::IValue>> constants;
  CompileReport report;
  // The sizes that it was compiled for, and which of them are symbolic: tensors, then integers.
  std::vector<Shape> shapes;
  std::vector<int64_t> integers;
  std::vector<std::vector<bool>> dynamic;

  // Takes the result of the compile. False: it is still running. Throws what the compile threw.
  bool take_compiled();
  bool matches(uint64_t call_context, const detail::Call& call) const;
  // Whether gradients are recorded for the same inputs as in the trace.
  bool same_gradients(const runtime::CallInputs& in) const;
  // The first integer argument for which this variant was not compiled; negative: none.
  int other_integer(const detail::Call& call) const;
};

using FunctionVariantList = std::vector<std::shared_ptr<const FunctionVariant>>;

std::vector<Shape> shapes_of(std::span<const at::Tensor> tensors);

// Selects the dimensions and integers of this call to make symbolic: those that differ from variants of the same
// structure, and those that are symbolic there. `always`: all of them.
std::vector<std::vector<bool>> choose_dynamic(const detail::Call& call, std::string_view key, uint64_t context,
                                              const FunctionVariantList& before, bool always);

// Why no variant of the list serves this call.
std::string why_not(const FunctionVariantList& list, std::string_view key, uint64_t context, const detail::Call& call);

}  // namespace vesta::capture::functions
