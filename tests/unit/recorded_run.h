// Calls of hand-made programs in tests of recorded calls.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "recorded_program.h"

namespace vesta::testing {

inline std::vector<c10::IValue> outputs_of(const runtime::Executable& e, const std::vector<at::Tensor>& inputs) {
  std::string why;
  runtime::CallInputs in{inputs, {}, {}};
  runtime::Addresses addresses;
  EXPECT_TRUE(e.accepts(in, &why, &addresses)) << why;
  in.addresses = {addresses.data(), addresses.size()};
  std::vector<c10::IValue> out;
  e.run(in, out);
  return out;
}

inline at::Tensor one(const runtime::Executable& e, const std::vector<at::Tensor>& inputs) {
  return outputs_of(e, inputs).at(0).toTensor();
}

inline ::testing::AssertionResult all_are(const at::Tensor& t, float want) {
  const at::Tensor found = on_cpu(t);
  if (found.equal(at::full_like(found, want))) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << found << " is not " << want;
}

// A call that finds no memory throws, and its caller runs eager; every other one is right.
inline bool ran(const runtime::Executable& e, const std::vector<at::Tensor>& inputs, float want, int served,
                int failures) {
  gpu::run_short(served, failures);
  bool right = true;
  try {
    const at::Tensor y = one(e, inputs);
    EXPECT_TRUE(all_are(y, want)) << "after " << served << " requests";
  } catch (const c10::OutOfMemoryError&) {
    right = false;
  }
  return right;
}

}  // namespace vesta::testing
