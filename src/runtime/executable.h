// An artifact bound to this process: operator handles looked up, derived weights kept. Calls are thread-safe.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "artifact/artifact.h"

namespace vesta::runtime {

class Executable {
 public:
  explicit Executable(artifact::Artifact artifact);
  ~Executable();

  // Whether these inputs (tensors in graph order, then integer arguments) meet the artifact's types, sizes, strides and
  // guards. On false, *why (if given) says which fact failed with the expected and the found value.
  bool accepts(std::span<const at::Tensor> tensors, std::span<const int64_t> integers, std::string* why = nullptr) const;

  // Requires accepts(). Runs below autograd. Outputs in graph order: Tensor, int or None.
  // Exceptions of extern operators pass through; the copies to inputs run after every other step, so that an exception
  // leaves the inputs as they were.
  void run(std::span<const at::Tensor> tensors, std::span<const int64_t> integers, std::vector<c10::IValue>& outputs) const;

  const artifact::Artifact& artifact() const;
  int64_t derived_bytes() const;    // packed and folded weights now held

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vesta::runtime
