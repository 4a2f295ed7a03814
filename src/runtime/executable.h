// An artifact bound to this process: operator handles looked up, derived weights kept. Calls are thread-safe.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "artifact/artifact.h"
#include "runtime/graph_options.h"
#include "runtime/input_check.h"
#include "vesta/report.h"

namespace vesta::runtime {

// A run failed after it had begun to write its inputs: the same call made again would apply the update twice. `cause`
// is what failed.
class FailedAfterWriting : public std::exception {
 public:
  explicit FailedAfterWriting(std::exception_ptr cause)
      : cause(std::move(cause)) {}  // NOLINT(bugprone-throw-keyword-missing)
  const char* what() const noexcept override { return "a run failed after it had begun to write its inputs"; }
  const std::exception_ptr cause;
};

class Executable {
 public:
  // Throws Unsupported if this process lacks an operator of the artifact.
  explicit Executable(artifact::Artifact artifact, const GraphOptions& graphs = {});
  ~Executable();

  // Whether these inputs meet the artifact's types, sizes, strides and guards. On false, *why (if given) says which
  // fact failed with the expected and the found value. `addresses`, if given, are then those of the inputs, for run().
  bool accepts(const CallInputs& inputs, std::string* why = nullptr, Addresses* addresses = nullptr) const;
  bool accepts(std::span<const at::Tensor> tensors, std::span<const int64_t> integers,
               std::string* why = nullptr) const {
    return accepts(CallInputs{tensors, {}, integers}, why);
  }

  // Requires accepts(). Runs below autograd. Outputs in graph order: Tensor, int or None; appended to `outputs`.
  // Exceptions of extern operators pass through, and that memory is short: an input that the program reads is written
  // when all that is left are kernels and copies whose memory is there, so that such an exception leaves the inputs as
  // they were, or so that the same call made again gives the same; random numbers are given back. What fails later yet
  // is FailedAfterWriting.
  // `consumed`: the same tensors as inputs.arguments, if the caller gives them away; each is dropped after its last
  // use.
  void run(const CallInputs& inputs, std::vector<c10::IValue>& outputs, std::span<at::Tensor> consumed = {}) const;
  void run(std::span<const at::Tensor> tensors, std::span<const int64_t> integers,
           std::vector<c10::IValue>& outputs) const {
    run(CallInputs{tensors, {}, integers}, outputs);
  }

  const artifact::Artifact& artifact() const;
  // The further entry points of the artifact, in its order.
  std::span<const std::unique_ptr<Executable>> entries() const;
  int64_t derived_bytes() const;              // packed and folded weights now held
  std::optional<GraphReport> graphs() const;  // nullopt: a program of the CPU
  // How often they were made. Whoever knows when one of their parameters goes lets them go with it.
  int64_t times_derived() const;
  void drop_derived() const;

 private:
  void run(const CallInputs& in, std::vector<c10::IValue>& outputs, std::span<at::Tensor> consumed, bool& wrote) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vesta::runtime
