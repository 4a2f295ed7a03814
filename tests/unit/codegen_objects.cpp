// Objects that the code generator makes, and what the loader does with damaged ones.
#include <elf.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "codegen/codegen.h"
#include "machine/load.h"
#include "vesta/error.h"

namespace vesta::codegen::testing {
namespace {

using machine::Object;

// A kernel with constants that calls a function of the C library and one of Vesta's.
std::string kernel_text(int64_t n) {
  return fmt::format(R"(kernel
range p0 parallel {}
vector p0 lanes 8
block 64
buffer b0 f64 read
buffer b1 f64 write
stage
  %0 = load f64 b0[p0]
  %1 = const f64 0.123456789
  %2 = add f64 %0 %1
  %3 = tan f64 %2
  %4 = lgamma f64 %3
  store f64 b1[p0] %4
)",
                     n);
}

Object object_of(int64_t n) { return *compile({{kernel_text(n), "test"}}, host_target(), {})[0].object; }

class Objects : public ::testing::Test {
  void SetUp() override {
    if (!available(host_target())) GTEST_SKIP() << "this build has no code generator";
  }
};

TEST_F(Objects, EqualTextGivesEqualBytesWheneverItIsCompiled) {
  const Object first = object_of(54321);
  const Object between = object_of(54322);
  const Object again = object_of(54321);
  EXPECT_EQ(first.symbol, again.symbol);
  EXPECT_EQ(first.bytes, again.bytes);
  EXPECT_NE(first.symbol, between.symbol);
}

TEST_F(Objects, FunctionsOutsideAreFound) {
  const auto code = machine::load(object_of(100));
  std::vector<double> in(100), out(100);
  for (size_t i = 0; i < in.size(); ++i) in[i] = 0.01 * static_cast<double>(i);
  void* buffers[] = {in.data(), out.data()};
  code->entry()(buffers, nullptr, nullptr, 0, 2);
  for (size_t i = 0; i < in.size(); ++i) EXPECT_NEAR(out[i], std::lgamma(std::tan(in[i] + 0.123456789)), 1e-12) << i;
}

TEST_F(Objects, AFunctionThatIsNotThereIsNamed) {
  Object o = object_of(101);
  const size_t at = o.bytes.find("vesta_lgamma_f64");
  ASSERT_NE(at, std::string::npos);
  o.bytes[at + 6] = 'x';
  try {
    machine::load(o);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InternalError& e) {
    EXPECT_NE(std::string(e.what()).find("vesta_xgamma_f64"), std::string::npos) << e.what();
  }
}

// Not executed: any bytes may stand where the code is. An error or a load, within bounds (run under ASan, too).
TEST_F(Objects, DamagedOnesAreAnErrorOrLoaded) {
  const Object whole = object_of(102);
  std::mt19937 random(1);
  const auto header = *reinterpret_cast<const Elf64_Ehdr*>(whole.bytes.data());
  int errors = 0;
  constexpr int kTries = 10000;
  for (int i = 0; i < kTries; ++i) {
    Object o = whole;
    for (unsigned k = 0; k <= random() % 3; ++k) {
      // Mostly where the tables are.
      const size_t tables = o.bytes.size() - header.e_shoff;
      const size_t at = random() % 2 ? header.e_shoff + random() % tables : random() % o.bytes.size();
      switch (random() % 3) {
        case 0: o.bytes[at] = static_cast<char>(random()); break;
        case 1: o.bytes[at] = static_cast<char>(random() % 2 ? 0xff : 0); break;
        default: {
          const uint64_t values[] = {0, 1, ~uint64_t{0}, uint64_t{1} << 63, o.bytes.size(), random()};
          std::memcpy(o.bytes.data() + at, &values[random() % 6], std::min<size_t>(8, o.bytes.size() - at));
        }
      }
    }
    if (random() % 8 == 0) o.bytes.resize(random() % o.bytes.size());
    try {
      machine::load(o);
    } catch (const InternalError&) {
      ++errors;
    }
  }
  EXPECT_GT(errors, kTries / 10);
  EXPECT_LT(errors, kTries);
}

}  // namespace
}  // namespace vesta::codegen::testing
