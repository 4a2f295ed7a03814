// One compiled form of a function, or the knowledge that these inputs run eager.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/executable.h"
#include "trace/tensors/view_relation.h"
#include "vesta/detail/function.h"

namespace vesta::capture::functions {

struct Shape {
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

struct Variant {
  std::string key;  // of the call's structure and constants
  uint64_t context = 0;
  std::shared_ptr<const runtime::Executable> executable;  // of an eager variant: checks inputs, runs nothing
  std::string eager_reason;                               // not empty: these inputs run eager
  std::exception_ptr error;   // what strict rethrows then; null where the program itself raised
  bool in_grad_mode = false;  // an operator was recorded while gradient mode was on: no input may require grad
  std::vector<trace::ViewRelation> views;
  std::vector<at::Tensor> lifted;  // tensors the program captured, the executable's last inputs
  std::shared_ptr<const std::vector<c10::IValue>> constants;
  CompileReport report;
  // What it was compiled from, and which of it is symbolic: tensors, then integers.
  std::vector<Shape> shapes;
  std::vector<int64_t> integers;
  std::vector<std::vector<bool>> dynamic;

  bool matches(uint64_t call_context, const detail::Call& call) const;
  // The first integer argument that this variant was not compiled for; negative: none.
  int other_integer(const detail::Call& call) const;
};

using VariantList = std::vector<std::shared_ptr<const Variant>>;

std::vector<Shape> shapes_of(std::span<const at::Tensor> tensors);

// Which dimensions and integers of this call to make symbolic: those in which it differs from variants of the same
// structure, and those that were symbolic there. `always`: all of them.
std::vector<std::vector<bool>> choose_dynamic(const detail::Call& call, std::string_view key, uint64_t context,
                                              const VariantList& before, bool always);

// Why none of them serves this call.
std::string why_not(const VariantList& list, std::string_view key, uint64_t context, const detail::Call& call);

}  // namespace vesta::capture::functions
