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

// The products of one row of 512 with three weights, rows of which are read elsewhere: queries, keys and values.
inline std::string projections_text(std::string_view dtype = "bf16") {
  return fmt::format(R"(input %0 : {0}[1, 1, 512]@D = argument "x" aligned 16
input %1 : {0}[256, 512]@D = parameter "q" aligned 16
input %2 : {0}[64, 512]@D = parameter "k" aligned 16
input %3 : {0}[64, 512]@D = parameter "v" aligned 16
%4 : {0}[1, 1, 256]@D = aten::linear(%0, %1, none)
%5 : {0}[1, 1, 64]@D = aten::linear(%0, %2, none)
%6 : {0}[1, 1, 64]@D = aten::linear(%0, %3, none)
%7 : {0}[1, 1, 128]{{256, 256, 1}}@D = aten::slice.Tensor(%4, 2, 0, 128)
%8 : {0}[1, 1, 128]{{256, 256, 1}}@D = aten::slice.Tensor(%4, 2, 128, 256)
%9 : {0}[1, 1, 256]@D = aten::cat([%8, %7], 2)
%10 : {0}[1, 1, 256]@D = aten::mul.Tensor(%9, %4)
%11 : {0}[1, 1, 128]@D = aten::cat([%5, %6], 2)
output %10
output %11
)",
                     dtype);
}

// A decode step: one query for each of `heads`, over caches of `shared` heads that are `repeated` in memory by the
// program, or read by several heads each; `mask`: "", or the sizes of a bias of the query's dtype.
struct DecodeStep {
  int64_t batch = 1, heads = 8, shared = 8, keys = 64, size = 64;
  std::string dtype = "f32", mask;
  bool repeated = false;
  std::string op = "cudnn", causal = "false", scale = "none";
};

inline std::string attention_text(const DecodeStep& s) {
  const auto tensor = [&](int64_t heads, int64_t rows) {
    return fmt::format("{}[{}, {}, {}, {}]@D", s.dtype, s.batch, heads, rows, s.size);
  };
  const std::string cache = tensor(s.shared, s.keys), query = tensor(s.heads, 1);
  std::string text = fmt::format(
      "input %0 : {0} = argument \"q\" aligned 16\ninput %1 : {1} = argument \"k\" aligned 16\ninput %2 : {1} = "
      "argument \"v\" aligned 16\n",
      query, cache);
  if (!s.mask.empty()) text += fmt::format("input %3 : {}[{}]@D = argument \"mask\" aligned 16\n", s.dtype, s.mask);
  int k = 1, v = 2;
  if (s.repeated) {
    const int64_t group = s.heads / s.shared, row = s.keys * s.size;
    for (const int from : {1, 2}) {
      const int at = from * 10;
      const std::string one = fmt::format("[{}, {}, 1, {}, {}]", s.batch, s.shared, s.keys, s.size),
                        all = fmt::format("[{}, {}, {}, {}, {}]", s.batch, s.shared, group, s.keys, s.size);
      text += fmt::format("%{} : {}{}@D = aten::unsqueeze(%{}, 2)\n", at, s.dtype, one, from);
      text += fmt::format("%{} : {}{}{{{}, {}, 0, {}, 1}}@D = aten::expand(%{}, {})\n", at + 1, s.dtype, all,
                          s.shared * row, row, s.size, at, all);
      text += fmt::format("%{} : {}{}@D = aten::clone(%{}, memory_format=format.contiguous)\n", at + 2, s.dtype, all,
                          at + 1);
      text += fmt::format("%{} : {} = aten::view(%{}, [{}, {}, {}, {}])\n", at + 3, tensor(s.heads, s.keys), at + 2,
                          s.batch, s.heads, s.keys, s.size);
    }
    k = 13;
    v = 23;
  }
  const std::string mask = s.mask.empty() ? "none" : "%3";
  std::string arguments = fmt::format("%0, %{}, %{}", k, v), results = fmt::format("%40 : {}, ", query);
  const std::string sums = fmt::format("%41 : f32[{}, {}, 1", s.batch, s.heads);
  const std::string nothing = ", %{} : undefined";
  if (s.op == "cudnn") {
    arguments += fmt::format(", {}, false, 0., {}, false", mask, s.causal);
    results += sums + ", 1]@D, _, _, _, _, _, _, _";
  } else if (s.op == "efficient") {
    arguments += fmt::format(", {}, false, 0., {}", mask, s.causal);
    results += fmt::format("%41 : f32[{}, {}, 0]@D, _, _", s.batch, s.heads);
  } else {
    arguments += fmt::format(", 0., {}, false", s.causal);
    results += sums + "]@D, _, _, _, _, _, _, _";
  }
  return text + fmt::format("{} = aten::_scaled_dot_product_{}_attention({}, scale={})\noutput %40\n", results, s.op,
                            arguments, s.scale);
}

}  // namespace vesta::testing
