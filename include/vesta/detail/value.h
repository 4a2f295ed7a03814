// The arguments and results of a saved program as a tree of values. Plain data. Not a public interface; vesta/load.h
// is.
#pragma once

#include <ATen/core/Tensor.h>

#include <complex>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace vesta::detail {

struct Value {
  struct None {};
  // A dtype, device, layout or memory format as Python writes it: "torch.float16".
  struct Name {
    std::string text;
  };
  struct List {
    std::vector<Value> items;
  };
  struct Tuple {
    std::vector<Value> items;
  };
  struct Dict {
    std::vector<std::pair<Value, Value>> items;  // in insertion order
  };
  std::variant<None, bool, int64_t, double, std::complex<double>, std::string, Name, at::Tensor, List, Tuple, Dict>
      value;
};

}  // namespace vesta::detail
