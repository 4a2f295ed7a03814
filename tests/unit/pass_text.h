// Runs one pass on a graph text and compares the text that comes out; both graphs must verify.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "graph/passes/passes.h"

namespace vesta::graph::testing_text {

using ComputesProduct = decltype(PassContext::computes_product);

inline std::string canonical(const std::string& text) {
  const auto g = parse(text);
  verify(*g);
  return print(*parse(print(*g)));
}

// The pass, then dead-code: passes leave what they replaced to it.
inline void expect_pass(PassFn pass, const std::string& before, const std::string& after, Options options = {},
                        DeviceType device = DeviceType::CPU, const ComputesProduct& computes_product = {}) {
  const auto g = parse(before);
  verify(*g);
  EXPECT_TRUE(pass(*g, {.options = options, .device = device, .computes_product = computes_product})) << before;
  verify(*g);
  remove_dead_code(*g, {.options = options});
  verify(*g);
  EXPECT_EQ(print(*parse(print(*g))), canonical(after));
  // Nothing is rewritten when no rewrite is allowed.
  const auto limited = parse(before);
  const std::string untouched = print(*limited);
  EXPECT_FALSE(
      pass(*limited, {.options = options, .device = device, .computes_product = computes_product, .may_rewrite = [] {
                        return false;
                      }}));
  EXPECT_EQ(print(*limited), untouched);
}

inline void expect_unchanged(PassFn pass, const std::string& text, Options options = {},
                             DeviceType device = DeviceType::CPU, const ComputesProduct& computes_product = {}) {
  const auto g = parse(text);
  verify(*g);
  EXPECT_FALSE(pass(*g, {.options = options, .device = device, .computes_product = computes_product})) << print(*g);
  verify(*g);
  EXPECT_EQ(print(*parse(print(*g))), canonical(text));
}

}  // namespace vesta::graph::testing_text
