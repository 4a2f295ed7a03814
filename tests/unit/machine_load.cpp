// Loads code without a code generator; codegen_objects.cpp loads code that one made.
#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "machine/load.h"
#include "vesta/error.h"

namespace {

using namespace vesta;
using machine::Form;

constexpr const char* kNegate = R"(kernel
range p0 parallel 4
buffer b0 f32 read
buffer b1 f32 write
stage
  %0 = load f32 b0[p0]
  %1 = neg f32 %0
  store f32 b1[p0] %1
)";

TEST(Load, TextIsInterpreted) {
  const auto code = machine::load({Form::Text, "negate", kNegate});
  std::array<float, 4> in = {1, -2, 3, 0}, out{};
  std::array<void*, 2> buffers = {in.data(), out.data()};
  code->entry()(buffers.data(), nullptr, nullptr, 0, 4);
  EXPECT_EQ(out, (std::array<float, 4>{-1, 2, -3, -0.0F}));
}

TEST(Load, TextIsAnErrorWhereNothingInterpretsIt) {
  const auto interpreter = std::exchange(machine::load_text, nullptr);
  EXPECT_THROW(machine::load({Form::Text, "negate without an interpreter", kNegate}), InternalError);
  machine::load_text = interpreter;
  EXPECT_TRUE(machine::load({Form::Text, "negate without an interpreter", kNegate}));
}

TEST(Load, OneCodeForASymbolWhileItLives) {
  auto first = machine::load({Form::Text, "negate twice", kNegate});
  EXPECT_EQ(first, machine::load({Form::Text, "negate twice", kNegate}));
  EXPECT_NE(first, machine::load({Form::Text, "negate once more", kNegate}));
  const std::weak_ptr<const machine::Code> gone = first;
  first.reset();
  EXPECT_TRUE(gone.expired());
}

TEST(Load, WhatIsNoElfFileIsAnError) {
  for (const std::string bytes : {"",
                                  "\x7f"
                                  "ELF",
                                  "some text that is longer than the header of an ELF file is, which has 64 bytes"})
    EXPECT_THROW(machine::load({Form::Elf, "x", bytes}), InternalError) << bytes.size();
}

}  // namespace
