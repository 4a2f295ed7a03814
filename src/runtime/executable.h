// An artifact bound to this process: operator handles looked up, derived weights kept. Calls are thread-safe.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "artifact/artifact.h"
#include "runtime/input_check.h"

namespace vesta::runtime {

class Executable {
 public:
  // Throws Unsupported if this process lacks an operator of the artifact.
  explicit Executable(artifact::Artifact artifact);
  ~Executable();

  // Whether these inputs meet the artifact's types, sizes, strides and guards. On false, *why (if given) says which
  // fact failed with the expected and the found value. Allocates nothing when true.
  bool accepts(const CallInputs& inputs, std::string* why = nullptr) const;
  bool accepts(std::span<const at::Tensor> tensors, std::span<const int64_t> integers,
               std::string* why = nullptr) const {
    return accepts(CallInputs{tensors, {}, integers}, why);
  }

  // Requires accepts(). Runs below autograd. Outputs in graph order: Tensor, int or None; appended to `outputs`.
  // Exceptions of extern operators pass through; the copies to inputs run after every other step, so that an exception
  // leaves the inputs as they were.
  // `consumed`: the same tensors as inputs.arguments, if the caller gives them away; each is dropped after its last
  // use.
  void run(const CallInputs& inputs, std::vector<c10::IValue>& outputs, std::span<at::Tensor> consumed = {}) const;
  void run(std::span<const at::Tensor> tensors, std::span<const int64_t> integers,
           std::vector<c10::IValue>& outputs) const {
    run(CallInputs{tensors, {}, integers}, outputs);
  }

  const artifact::Artifact& artifact() const;
  int64_t derived_bytes() const;  // packed and folded weights now held

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vesta::runtime
