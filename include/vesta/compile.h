// The C++ front door.
//
//   auto f = vesta::compile([](const at::Tensor& x, const at::Tensor& w) { return at::silu(at::mm(x, w)); });
//   at::Tensor y = f(x, w);
//
// The first call with new shapes, strides, dtypes or devices traces and compiles; later ones run the compiled code. Results
// equal eager's; what Vesta cannot compile runs eager (counted in report(), logged once; Options::strict throws).
// A callable may take and return at::Tensor, std::optional<at::Tensor>, std::vector, std::array, std::tuple, std::pair,
// std::map<std::string, ...> of these, integers, floating-point numbers, bools and strings. Numbers and strings are constants
// of a variant: another value compiles another variant (integers become symbolic with Options::dynamic).
// Calls are thread-safe if the callable is.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "vesta/detail/flatten.h"
#include "vesta/options.h"
#include "vesta/report.h"

namespace vesta {

namespace detail {
// The type-erased function: flat tensors and numbers in, flat results out.
class VESTA_API CompiledFunction {
 public:
  using Program = std::function<std::vector<c10::IValue>(const std::vector<c10::IValue>&)>;
  CompiledFunction(Program program, Options options);
  // `key`: structure and constants of the arguments (equal keys may share a variant).
  void call(std::vector<c10::IValue>& arguments, const std::string& key, std::vector<c10::IValue>& results);
  FunctionReport report() const;
  void reset();                     // forgets all variants

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};
}  // namespace detail

// See include/vesta/detail/function.h for the wrapper's implementation.

}  // namespace vesta
