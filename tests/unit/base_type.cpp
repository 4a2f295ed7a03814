#include <gtest/gtest.h>

#include "base/prim.h"
#include "base/type.h"
#include "vesta/error.h"

namespace vesta {
namespace {

TEST(Type, NamesRoundTrip) {
  for (int t = 0; t <= static_cast<int>(DType::Other); ++t) {
    EXPECT_EQ(parse_dtype(name(static_cast<DType>(t))), static_cast<DType>(t));
  }
  EXPECT_THROW(parse_dtype("f31"), UserError);
  EXPECT_EQ(parse_device("cuda:3"), (Device{DeviceType::CUDA, 3}));
  EXPECT_EQ(to_string(Device{DeviceType::CPU, -1}), "cpu");
}

TEST(Type, PromotionIsPyTorchs) {
  EXPECT_EQ(promote(DType::F16, DType::BF16), DType::F32);
  EXPECT_EQ(promote(DType::I64, DType::F16), DType::F16);
  EXPECT_EQ(promote(DType::U8, DType::I8), DType::I16);
  EXPECT_EQ(promote(DType::U8, DType::I64), DType::I64);
  EXPECT_EQ(promote(DType::Bool, DType::U8), DType::U8);
  EXPECT_EQ(promote(DType::C64, DType::F64), DType::C128);
  EXPECT_EQ(promote(DType::C64, DType::I64), DType::C64);
}

TEST(Prim, NamesRoundTrip) {
  for (int p = 0; p < kPrimCount; ++p) {
    EXPECT_EQ(parse_prim(name(static_cast<Prim>(p))), static_cast<Prim>(p));
    EXPECT_GE(arity(static_cast<Prim>(p)), 1);
  }
  EXPECT_EQ(arity(Prim::Select), 3);
  EXPECT_TRUE(yields_bool(Prim::Le));
  EXPECT_FALSE(yields_bool(Prim::Add));
}

}  // namespace
}  // namespace vesta
