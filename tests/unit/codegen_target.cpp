// Targets: this machine as cpuid describes it is what LLVM finds, and code is compiled for others, too.
#include <gtest/gtest.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/TargetParser/Host.h>

#include <sys/syscall.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <sstream>

#include "base/check.h"
#include "codegen/generator.h"
#include "codegen/llvm/target.h"
#include "machine/load.h"
#include "older_target.h"

namespace vesta::codegen::testing {
namespace {

TEST(Target, TheHostIsWhatLlvmFinds) {
  if (std::getenv("ATEN_CPU_CAPABILITY")) GTEST_SKIP() << "the host is held to less than it has";
  llvm::StringMap<bool> have;
#if LLVM_VERSION_MAJOR >= 19
  have = llvm::sys::getHostCPUFeatures();
#else
  llvm::sys::getHostCPUFeatures(have);
#endif
  const Target& t = host_target();
  const llvm::Triple ours(t.triple), theirs(llvm::sys::getProcessTriple());
  EXPECT_EQ(ours.getArch(), theirs.getArch());
  EXPECT_EQ(ours.getOS(), theirs.getOS());
  EXPECT_EQ(ours.getEnvironment(), theirs.getEnvironment());
  std::stringstream list(t.features);
  int count = 0;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  const bool gets_matrices = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  for (std::string one; std::getline(list, one, ','); ++count) {
    const bool refused = one.substr(1).starts_with("amx") && !gets_matrices;
    EXPECT_EQ(one[0] == '+', have.lookup(one.substr(1)) && !refused) << one;
  }
  EXPECT_GT(count, 40);
  // LLVM's table has CPUs that ours has not, for which the level of the psABI stands.
  if (!t.cpu.starts_with("x86-64")) {
    EXPECT_EQ(t.cpu, llvm::sys::getHostCPUName().str());
  }
}

TEST(Target, AnOlderProcessorHasItsOwnCode) {
  const Target old = older_target();
  const std::string kernel = R"(kernel
range p0 parallel 64
vector p0 lanes 16
block 64
buffer b0 f32 read
buffer b1 f32 write
stage
  %0 = load f32 b0[p0]
  %1 = exp f32 %0
  store f32 b1[p0] %1
)";
  const std::vector<Request> requests = {{kernel, "exp"}};
  const auto own = compile(requests, host_target(), {}), other = compile(requests, old, {});
  ASSERT_NE(fingerprint(old), fingerprint(host_target()));
  EXPECT_NE(own[0].object->symbol, other[0].object->symbol);
  EXPECT_NE(own[0].object->bytes, other[0].object->bytes);
  EXPECT_EQ(other[0].object, compile(requests, old, {})[0].object);
  // It runs here as well, and gives the same but for rounding.
  std::vector<float> x(64), a(64), b(64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) / 16 - 2;
  for (auto [object, out] : {std::pair(own[0].object, &a), std::pair(other[0].object, &b)}) {
    void* buffers[] = {x.data(), out->data()};
    machine::load(*object)->entry()(buffers, nullptr, nullptr, 0, 1);
  }
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(a[i], std::exp(x[i]), 1e-6 * std::exp(x[i]));
    EXPECT_NEAR(b[i], std::exp(x[i]), 1e-6 * std::exp(x[i]));
  }
}

TEST(Target, NoCodeForWhatTheGeneratorDoesNotServe) {
  Target t = host_target();
  EXPECT_TRUE(available(t));
  EXPECT_EQ(&fingerprint(t), &llvm_fingerprint(t));
  t.device = DeviceType::Other;
  std::string why;
  EXPECT_FALSE(available(t, &why));
  EXPECT_NE(why.find("no code generator"), std::string::npos) << why;
  EXPECT_EQ(fingerprint(t), "none");
  EXPECT_THROW(compile({{"a kernel's text", "test"}}, t, {}), Unsupported);
  t = host_target();
  t.triple = "aarch64-unknown-linux-gnu";
  EXPECT_FALSE(available(t));
  EXPECT_EQ(fingerprint(t), "none");
  EXPECT_THROW(compile({{"a kernel's text", "test"}}, t, {}), Unsupported);
}

}  // namespace
}  // namespace vesta::codegen::testing
