// Objects that the code generator makes, and what the loader does with damaged ones.
#include <elf.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

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

// x w^T, which transposes w in registers. Products with any n have the same tiles, so they share functions.
std::string product_text(int64_t n, int64_t tile_rows = 4) {
  const int64_t lanes = host_target().vector_bytes / 4;
  return fmt::format(R"(kernel
range p0 parallel {0}
range p1 parallel {1}
range r0 inner 64
vector p1 lanes {2}
block {1}
registers {3} by {1} rows {3} slice 64 packs columns
buffer b0 f32 read
buffer b1 f32 read
buffer b2 f32 write
stage loop
  %0 = load f32 b0[r0 + 64*p0]
  %1 = load f32 b1[r0 + 64*p1]
  %2 = mul f32 %0 %1
  %3 = accumulate f32 sum %2
stage
  %4 = result f32 %3
  store f32 b2[p1 + {1}*p0] %4
)",
                     n, 2 * lanes, lanes, tile_rows);
}

// A thread keeps LLVM's passes between kernels, and the process keeps the code that kernels share. What was compiled
// before must not show in an object.
TEST_F(Objects, ANewThreadMakesTheBytesThatAnOldOneMakes) {
  CompileOptions one_thread;
  one_thread.workers = 1;
  const auto bytes_of = [&](const std::string& text, const CompileOptions& options) {
    return compile({{text, "test"}}, host_target(), options)[0].object->bytes;
  };
  const auto all = [&] {
    std::vector<std::string> out;
    for (const int64_t n : {8, 12}) out.push_back(bytes_of(product_text(n), one_thread));
    for (const int64_t n : {201, 202, 203}) out.push_back(bytes_of(kernel_text(n), one_thread));
    return out;
  };
  const std::vector<std::string> first = all();
  EXPECT_NE(first[0], first[1]);
  EXPECT_EQ(all(), first);
  std::vector<std::string> of_thread;
  std::thread([&] { of_thread = all(); }).join();
  EXPECT_EQ(of_thread, first);
  // With a folder for dumps, shared code is compiled anew.
  CompileOptions dumps = one_thread;
  dumps.dump_dir = fmt::format("{}/objects_{}", ::testing::TempDir(), getpid());
  EXPECT_EQ(bytes_of(product_text(12), dumps), first[1]);
}

// Each object has a copy of the functions that it shares with others.
TEST_F(Objects, CodeThatKernelsShareIsPartOfEach) {
  const auto product = [](int64_t n) { return *compile({{product_text(n), "test"}}, host_target(), {})[0].object; };
  const Object a = product(20), b = product(24);
  const auto code = [](const Object& o) {  // the section of code, the largest one
    Elf64_Ehdr header;
    std::memcpy(&header, o.bytes.data(), sizeof header);
    std::string_view largest;
    for (size_t n = 0; n < header.e_shnum; ++n) {
      Elf64_Shdr s;
      std::memcpy(&s, o.bytes.data() + header.e_shoff + n * sizeof s, sizeof s);
      if (s.sh_flags & SHF_EXECINSTR && s.sh_size > largest.size())
        largest = std::string_view(o.bytes).substr(s.sh_offset, s.sh_size);
    }
    return largest;
  };
  const std::string_view of_a = code(a), of_b = code(b);
  const auto equal =
      static_cast<size_t>(std::mismatch(of_a.begin(), of_a.end(), of_b.begin(), of_b.end()).first - of_a.begin());
  EXPECT_GE(equal, 512u);
  EXPECT_LT(equal, of_a.size());
  for (const auto& [o, rows] : {std::pair(&a, 20), std::pair(&b, 24)}) {
    const int64_t columns = host_target().vector_bytes / 2;
    std::vector<float> x(static_cast<size_t>(rows) * 64, 0.5f), w(static_cast<size_t>(columns) * 64, 2.0f);
    std::vector<float> y(static_cast<size_t>(rows * columns));
    alignas(64) static char scratch[1 << 16];
    void* buffers[] = {x.data(), w.data(), y.data()};
    const auto loaded = machine::load(*o);
    loaded->entry()(buffers, nullptr, scratch, 0, rows / 4);
    for (const float v : y) ASSERT_EQ(v, 64.0f);
  }
}

// Threads wait for functions that others compile, and for memory.
TEST_F(Objects, SharedFunctionsInLittleMemory) {
  std::vector<Request> requests;
  for (int64_t n = 0; n < 32; ++n) requests.push_back({product_text(300 + n, 5 + n % 8), "test"});
  CompileOptions options;
  options.workers = 8;
  options.memory = 12 << 20;
  for (const Result& r : compile(requests, host_target(), options)) EXPECT_FALSE(r.object->bytes.empty());
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
