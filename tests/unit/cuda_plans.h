// Plans for a GPU of graph texts in which "@D" stands for the device. For tests without a GPU.
#pragma once

#include <fmt/format.h>

#include "graph/text.h"
#include "machine/cuda/device_target.h"
#include "schedule/plan.h"

namespace vesta::testing {

inline std::unique_ptr<graph::Graph> on_device(std::string_view device, std::string text) {
  for (size_t at; (at = text.find("@D")) != std::string::npos;)
    text.replace(at, 2, device == "cpu" ? "" : "@" + std::string(device));
  return graph::parse(text);
}

inline std::string softmax_text(int64_t rows, int64_t columns, std::string_view dtype = "f32") {
  const std::string all = fmt::format("{}[{}, {}]@D", dtype, rows, columns),
                    one = fmt::format("{}[{}, 1]@D", dtype, rows);
  return fmt::format(R"(input %0 : {0} = argument "x"
%1 : {1} = aten::amax(%0, [1], true)
%2 : {0} = aten::sub.Tensor(%0, %1)
%3 : {0} = aten::exp(%2)
%4 : {1} = aten::sum.dim_IntList(%3, [1], true)
%5 : {0} = aten::div.Tensor(%3, %4)
output %5
)",
                     all, one);
}

}  // namespace vesta::testing
