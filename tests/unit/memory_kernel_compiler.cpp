// Kernels that a process of its own compiles: equal bytes, its limits, its faults, and its end.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/compile_memory.h"
#include "base/fault.h"
#include "codegen/codegen.h"
#include "codegen/llvm/kernel_compiler_messages.h"
#include "codegen/llvm/memory.h"
#include "codegen_prims.h"
#include "machine/child.h"
#include "memory_kernel_texts.h"

namespace vesta::codegen {
namespace {

using namespace std::chrono_literals;
using testing::chain;
using Clock = std::chrono::steady_clock;

// The processes that this one has started and that have not ended.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream in(entry.path() / "stat");
    std::string pid, name, state, of;
    if (in >> pid >> name >> state >> of && of == std::to_string(parent) && name == "(vesta_kernel_co)" && state != "Z")
      found.push_back(std::atoi(pid.c_str()));
  }
  return found;
}

template <class F>
bool comes_true(F&& condition) {
  for (const auto end = Clock::now() + 20s; Clock::now() < end; std::this_thread::sleep_for(5ms))
    if (condition()) return true;
  return condition();
}

class KernelCompiler : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!machine::program_beside("vesta_kernel_compiler"))
      GTEST_SKIP() << "a build with a sanitizer has no such program";
  }
  void TearDown() override {
    for (const char* kind : {"crash", "memory", "delay"}) fault::spoil(fmt::format("kernel-compiler:{}", kind), false);
    EXPECT_TRUE(children_of(getpid()).empty());
    EXPECT_EQ(totals::bytes(totals::Memory::Generators), 0);
  }
  // A kernel whose estimate is more than generators may take, and the options for that.
  static std::string large(int n) { return chain(Prim::Exp, DType::F32, n); }
  static CompileOptions too_little_for(const std::string& text) {
    CompileOptions options;
    options.memory = compile({{text, "measured"}}, host_target(), options).at(0).memory * 3 / 2;
    return options;
  }
  // Why the kernel is refused; empty: it is not.
  static std::string why(const std::string& text, const CompileOptions& options) {
    try {
      compile({{text, "large"}}, host_target(), options);
      return "";
    } catch (const OverBudget& e) {
      return e.what();
    }
  }
  const std::string text_ = large(800);
  const CompileOptions options_ = too_little_for(text_);
};

TEST_F(KernelCompiler, MakesTheBytesOfThisProcess) {
  const std::string bytes = compile({{text_, "large"}}, host_target(), {}).at(0).object->bytes;
  const auto made = compile({{text_, "large"}, {large(3), "small"}}, host_target(), options_);
  EXPECT_EQ(made.at(0).origin, Origin::Compiled);
  EXPECT_EQ(made[0].memory, options_.memory / 8 * 4);
  EXPECT_EQ(made[0].object->bytes, bytes);
  EXPECT_LT(made[1].memory, made[0].memory / 8);
}

TEST_F(KernelCompiler, RefusesWhatTakesMoreThanItsLimit) {
  const std::string text = chain(Prim::Exp, DType::F32, 2000);  // about 100 MB
  CompileOptions options;
  options.memory = 80 << 20;
  const std::string said = why(text, options);
  EXPECT_NE(said.find("; in a process of its own, it took more than these 40.0 MiB"), std::string::npos) << said;
}

TEST_F(KernelCompiler, SaysWhyItFailed) {
  fault::spoil("kernel-compiler:crash", true);
  EXPECT_NE(why(text_, options_).find("in a process of its own, it crashed (Aborted)"), std::string::npos);
  fault::spoil("kernel-compiler:crash", false);
  fault::spoil("kernel-compiler:memory", true);
  EXPECT_NE(why(text_, options_).find("in a process of its own, it took more than these"), std::string::npos);
  fault::spoil("kernel-compiler:memory", false);
  EXPECT_EQ(why(text_, options_), "");
}

TEST_F(KernelCompiler, EndsAtItsDeadline) {
  fault::spoil("kernel-compiler:delay", true);
  CompileOptions options = options_;
  options.kernel_compiler_time = 100ms;
  const auto start = Clock::now();
  EXPECT_NE(why(text_, options).find("in a process of its own, it did not end in time"), std::string::npos);
  EXPECT_LT(Clock::now() - start, 20s);
}

TEST_F(KernelCompiler, EndsWhenTheCompileIsCancelled) {
  fault::spoil("kernel-compiler:delay", true);
  CancelToken cancel;
  CompileOptions options = options_;
  options.cancel = &cancel;
  std::thread canceller([&] {
    EXPECT_TRUE(comes_true([] { return children_of(getpid()).size() == 1; }));
    cancel.cancel();
  });
  EXPECT_THROW(why(text_, options), Cancelled);
  canceller.join();
}

TEST_F(KernelCompiler, DoesNotOutliveItsProcess) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // an orphan would be a child of this process
  const pid_t parent = fork();
  if (parent == 0) {
    fault::spoil("kernel-compiler:delay", true);
    why(text_, options_);
    _exit(0);
  }
  ASSERT_TRUE(comes_true([&] { return !children_of(parent).empty(); }));
  const pid_t compiler = children_of(parent).at(0);
  kill(parent, SIGKILL);
  ASSERT_EQ(waitpid(parent, nullptr, 0), parent);
  EXPECT_TRUE(comes_true([&] { return waitpid(compiler, nullptr, WNOHANG) == compiler; }));
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_F(KernelCompiler, DelaysNoForkAndTheChildCompiles) {
  fault::spoil("kernel-compiler:delay", true);
  CompileOptions options = options_;
  options.kernel_compiler_time = 1500ms;
  std::thread compiler([&] { why(text_, options); });
  EXPECT_TRUE(comes_true([] { return children_of(getpid()).size() == 1; }));
  const auto start = Clock::now();
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    fault::spoil("kernel-compiler:delay", false);
    _exit(why(text_, options_).empty() ? 0 : 1);
  }
  EXPECT_LT(Clock::now() - start, 1s);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  compiler.join();
}

TEST(KernelCompilerMessages, AreReadAsTheyWereWritten) {
  KernelCompilerRequest r{"f", "s", std::string("a\0:3", 4), host_target(), 12345, "delay"};
  const std::string bytes = to_bytes(r);
  const KernelCompilerRequest back = request_of(bytes);
  EXPECT_EQ(back.text, r.text);
  EXPECT_EQ(code_text(back.target), code_text(r.target));
  EXPECT_EQ(back.target.avx512, r.target.avx512);
  EXPECT_EQ(back.memory, 12345);
  EXPECT_EQ(back.fault, "delay");
  for (size_t n = 0; n < bytes.size(); n += 7) EXPECT_THROW(request_of(bytes.substr(0, n)), InternalError) << n;
  EXPECT_THROW(request_of(bytes + "1:x"), InternalError);
}

}  // namespace
}  // namespace vesta::codegen
