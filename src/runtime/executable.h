// An artifact bound to this process: it holds operator handles and prepacked constants. Calls are thread-safe. It never
// compiles.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "artifact/artifact.h"
#include "base/cancel.h"
#include "runtime/graph_options.h"
#include "runtime/input_check.h"
#include "vesta/report.h"

namespace vesta::runtime {

// A run failed after it had begun to write its inputs: a repeated call would apply the update twice. `cause` is the
// failure.
class FailedAfterWriting : public std::exception {
 public:
  explicit FailedAfterWriting(std::exception_ptr cause)
      : cause(std::move(cause)) {}  // NOLINT(bugprone-throw-keyword-missing)
  const char* what() const noexcept override { return "a run failed after it had begun to write its inputs"; }
  const std::exception_ptr cause;
};

// A run needs packed weights that do not exist yet, and CallInputs::packs is false. Nothing was written.
class NotPacked : public std::exception {
 public:
  explicit NotPacked(int64_t bytes) : bytes(bytes) {}
  const char* what() const noexcept override { return "its weights are not packed yet"; }
  const int64_t bytes;  // of the weights
};

class Executable {
 public:
  // Throws Unsupported if this process lacks an operator of the artifact.
  explicit Executable(artifact::Artifact artifact, const GraphOptions& graphs = {});
  ~Executable();

  // Whether these inputs meet the artifact's types, sizes, strides and guards. If not, *why (if given) says which fact
  // failed, with the expected and the found value. `addresses`, if given, gets the addresses of the inputs, for run().
  bool accepts(const CallInputs& inputs, std::string* why = nullptr, Addresses* addresses = nullptr) const;
  bool accepts(std::span<const at::Tensor> tensors, std::span<const int64_t> integers,
               std::string* why = nullptr) const {
    return accepts(CallInputs{tensors, {}, integers}, why);
  }

  // Requires accepts(). Runs below autograd. Appends to `outputs`, in graph order: Tensor, int or None.
  //
  // Exceptions of extern operators pass through, and so do errors about missing memory. An input that the program reads
  // is written only when all remaining steps are kernels and copies whose memory is allocated. After such an exception
  // the inputs are therefore as they were, or a repeated call gives the same results, and random numbers are given
  // back. A failure after that is FailedAfterWriting.
  //
  // `consumed`: the same tensors as inputs.arguments, if the caller gives them away; each is dropped after its last
  // use. `before_views`: gets the outputs before those are made that are views, of others or of inputs, or
  // inputs themselves; these are None.
  using Fresh = std::function<void(std::span<const c10::IValue>)>;
  void run(const CallInputs& inputs, std::vector<c10::IValue>& outputs, std::span<at::Tensor> consumed = {},
           const Fresh& before_views = {}) const;
  void run(std::span<const at::Tensor> tensors, std::span<const int64_t> integers,
           std::vector<c10::IValue>& outputs) const {
    run(CallInputs{tensors, {}, integers}, outputs);
  }

  const artifact::Artifact& artifact() const;
  // The further entry points of the artifact, in its order.
  std::span<const std::unique_ptr<Executable>> entries() const;
  int64_t prepacked_bytes() const;            // of packed and folded weights that are held now
  std::optional<GraphReport> graphs() const;  // nullopt: a program for the CPU
  // How often prepacked constants were computed. A caller that learns that one of their parameters is gone drops them.
  int64_t times_prepacked() const;
  void drop_prepacked() const;
  // Packs the weights among these inputs as the first run would do it. Requires accepts().
  void pack(const CallInputs& inputs) const;
  // The same as work for another thread, which takes one core and may be cancelled between two weights. It holds the
  // inputs' memory. The program must not shrink a storage of theirs meanwhile (torch.UntypedStorage.resize_).
  static std::function<void(const CancelToken&)> packing(const std::shared_ptr<const Executable>& program,
                                                         const CallInputs& inputs);

 private:
  void run(const CallInputs& in, std::vector<c10::IValue>& outputs, std::span<at::Tensor> consumed,
           const Fresh& before_views, bool& wrote) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vesta::runtime
