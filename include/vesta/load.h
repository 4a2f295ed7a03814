// Runs saved programs without Python and without a compiler. Link Vesta::runtime, or Vesta::vesta, which can also
// compile a program again that was saved for another CPU.
//
//   auto encode = vesta::load<at::Tensor(at::Tensor, at::Tensor)>("encoder.vesta");
//   at::Tensor y = encode(ids, mask);
//
// `vesta.save(compiled, "encoder.vesta")` in Python writes the file: every compiled variant, and the weights. A call
// runs the variant that fits its arguments. There is no eager program to fall back to, so arguments that fit no variant
// are a UserError that names the difference. Results equal those of the saved program. Gradients are not recorded.
// Weights are loaded to the devices that they were saved from. A program for a GPU needs a CUDA build of PyTorch, which
// the caller need not link, but neither a CUDA toolkit nor NVRTC.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "vesta/detail/convert.h"
#include "vesta/detail/value.h"
#include "vesta/error.h"

namespace vesta {

struct VESTA_API LoadOptions {
  std::string weights;  // a safetensors file with all or some of the weights, by name
  // Weights by name, on the program's devices. They take precedence over both files.
  std::map<std::string, at::Tensor> tensors;
  bool check_weights = false;  // reads all weights of the file and compares their digests
};

namespace detail {

// A saved program in this process. Calls are thread-safe.
class VESTA_API Program {
 public:
  // Throws UserError if the file cannot be read or cannot run here, or if a weight is missing or has another shape or
  // dtype.
  Program(const std::string& path, const LoadOptions& options);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  using Keywords = std::vector<std::pair<std::string, Value>>;
  Value call(std::vector<Value> arguments, Keywords keywords = {}) const;

  std::vector<std::pair<std::string, at::Tensor>> weights() const;
  void bind(const std::map<std::string, at::Tensor>& tensors);
  std::string describe() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace detail

template <class Signature>
class Loaded;

// A saved program with the types of a C++ function. Copies share their weights.
template <class R, class... A>
class Loaded<R(A...)> {
 public:
  explicit Loaded(std::shared_ptr<detail::Program> program) : program_(std::move(program)) {}

  R operator()(A... arguments) const {
    std::vector<detail::Value> values;
    values.reserve(sizeof...(A));
    (values.push_back(detail::to_value(arguments)), ...);
    return detail::from_value<R>(program_->call(std::move(values)));
  }

  // By the names of the module's state_dict(). Writing to these tensors in place changes the program.
  std::map<std::string, at::Tensor> weights() const {
    auto list = program_->weights();
    return {list.begin(), list.end()};
  }
  // Replaces weights by tensors of the same shapes and dtypes. Nothing is compiled.
  void bind(const std::map<std::string, at::Tensor>& tensors) { program_->bind(tensors); }
  // Describes the parameters, variants and weights.
  std::string describe() const { return program_->describe(); }

 private:
  std::shared_ptr<detail::Program> program_;
};

template <class Signature>
Loaded<Signature> load(const std::string& path, const LoadOptions& options = {}) {
  return Loaded<Signature>(std::make_shared<detail::Program>(path, options));
}

}  // namespace vesta
