// Compiles on threads of their own: results, failures, waiting, cancellation, faults.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <thread>

#include "base/fault.h"
#include "codegen/codegen.h"
#include "graph/text.h"
#include "pipeline/background.h"
#include "pipeline_program.h"
#include "vesta/error.h"

namespace {

using namespace vesta;
using pipeline::Background;
using namespace std::chrono_literals;

using vesta::testing::kProgram;

// Injects a fault until it goes out of scope.
struct Fault {
  explicit Fault(std::string_view stage, std::function<void()> f) : stage(stage) { fault::inject(stage, std::move(f)); }
  ~Fault() { fault::inject(stage, nullptr); }
  Fault(const Fault&) = delete;
  std::string_view stage;
};

// Without the cache, in which nothing would be left to do.
const Options kOptions{.cache = false};

std::shared_ptr<Background> start() {
  return pipeline::start_compile(graph::parse(kProgram), kOptions, {}, Background::Clock::now());
}

TEST(Background, GivesTheResultOfACompile) {
  const auto compile = start();
  ASSERT_TRUE(compile->wait_until(Background::Clock::time_point::max()));
  const pipeline::Result r = compile->take();
  EXPECT_TRUE(r.executable);
  EXPECT_EQ(r.report.kernels.size(), codegen::available(host_target()) ? 1u : 0u);
}

TEST(Background, IsWaitedForNoLongerThanAsked) {
  const Fault slow("plan", [] { std::this_thread::sleep_for(300ms); });
  const auto compile = start();
  EXPECT_FALSE(compile->is_done());
  EXPECT_FALSE(compile->wait_until(Background::Clock::now() + 10ms));
  EXPECT_FALSE(vesta::wait(0));
  EXPECT_TRUE(vesta::wait(60));
  EXPECT_TRUE(compile->is_done());
  EXPECT_TRUE(compile->take().executable);
}

// Also for a GPU, except where kernels are measured: the program must not use the device meanwhile.
TEST(Background, CompilesForEachDeviceUnlessItMeasures) {
  std::string on_gpu(kProgram);
  for (size_t at = 0; (at = on_gpu.find("8]", at)) != std::string::npos; at += 2) on_gpu.insert(at + 2, "@cuda:0");
  for (const auto& [text, measures] : std::vector<std::pair<std::string, bool>>{
           {on_gpu, false}, {on_gpu, true}, {std::string(kProgram), false}, {std::string(kProgram), true}}) {
    std::thread::id compiled_on;
    const Fault note("plan", [&] { compiled_on = std::this_thread::get_id(); });
    Options options = kOptions;
    options.autotune_seconds = measures ? 1 : 0;
    const auto compile = pipeline::start_compile(graph::parse(text), options, {}, Background::Clock::now());
    if (measures) {
      EXPECT_TRUE(compile->is_done());
    }
    ASSERT_TRUE(compile->wait_until(Background::Clock::time_point::max()));
    EXPECT_EQ(compiled_on == std::this_thread::get_id(), measures);
  }
}

TEST(Background, ThrowsWhatACompileThrows) {
  const Fault broken("codegen", [] { throw InternalError("broken"); });
  const auto compile = start();
  ASSERT_TRUE(compile->wait_until(Background::Clock::time_point::max()));
  for (int i = 0; i < 2; ++i) EXPECT_THROW(compile->take(), InternalError);
}

int priority_of_this_thread() { return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); }

// What a compile sees of the thread that it runs on, once the caller has stopped waiting for it or never waits.
class Priority : public ::testing::Test {
 protected:
  // Returns the priorities of the compile's thread at the beginning and in the end.
  std::pair<int, int> run(bool awaited, bool gives_up) {
    std::promise<void> go;
    std::pair<int, int> seen;
    const auto compile = Background::start(
        [&](const CancelToken& token) {
          seen.first = priority_of_this_thread();
          go.get_future().wait();
          seen.second = priority_of_this_thread();
          EXPECT_EQ(token.is_awaited(), awaited && !gives_up);
          return pipeline::Result{};
        },
        awaited);
    if (gives_up) {
      EXPECT_FALSE(compile->wait_until(Background::Clock::now() + 5ms));
      compile->lower();
    }
    go.set_value();
    EXPECT_TRUE(compile->wait_until(Background::Clock::time_point::max()));
    return seen;
  }
  const int usual_ = priority_of_this_thread();
};

TEST_F(Priority, IsLowWhereNobodyWaits) {
  const int low = std::max(usual_, 10);
  EXPECT_EQ(run(false, false), std::pair(low, low));
  EXPECT_EQ(run(true, false), std::pair(usual_, usual_)) << "the thread that nobody waits for took it";
  EXPECT_EQ(run(true, true).second, low);
  EXPECT_EQ(run(true, false), std::pair(usual_, usual_)) << "a thread whose priority was lowered took it";
  EXPECT_EQ(run(false, false), std::pair(low, low));
  EXPECT_EQ(priority_of_this_thread(), usual_);
}

TEST(Background, LowersACompileWhoseTimeIsUp) {
  int priority = 0;
  const Fault slow("plan", [&] {
    std::this_thread::sleep_for(50ms);
    priority = priority_of_this_thread();
  });
  const auto compile = start();
  ASSERT_TRUE(compile->wait_until(Background::Clock::time_point::max()));
  EXPECT_EQ(priority, std::max(priority_of_this_thread(), 10));
}

TEST(Background, RunsMoreCompilesThanItHasIdleThreads) {
  const Fault slow("passes", [] { std::this_thread::sleep_for(1ms); });
  std::vector<std::shared_ptr<Background>> all;
  for (int i = 0; i < 32; ++i) all.push_back(start());
  EXPECT_TRUE(vesta::wait());
  for (const auto& compile : all) EXPECT_TRUE(compile->take().executable);
}

// A graph with this many different kernels.
std::unique_ptr<graph::Graph> many_kernels(int count) {
  std::string text = "input %0 : f32[8, 8] = argument \"x\"\n";
  for (int i = 0; i < count; ++i) {
    text += fmt::format("%{} : f32[8, 8] = aten::mm(%{}, %{})\n", 4 * i + 1, 4 * i, 4 * i);
    text += fmt::format("%{} : f32[8, 8] = aten::add.Scalar(%{}, 0.{})\n", 4 * i + 2, 4 * i + 1, i + 1);
    text += fmt::format("%{} : f32[8, 8] = aten::exp(%{})\n", 4 * i + 3, 4 * i + 2);
    text += fmt::format("%{} : f32[8, 8] = aten::tanh(%{})\n", 4 * i + 4, 4 * i + 3);
  }
  return graph::parse(text + fmt::format("output %{}\n", 4 * count));
}

TEST(Background, AForkWaitsForOneKernelAndTheChildCompiles) {
  if (!codegen::available(host_target())) GTEST_SKIP() << "no code is generated here";
  constexpr int kKernels = 60;
  const auto start = Background::Clock::now();
  const auto compile = pipeline::start_compile(many_kernels(kKernels), {.background = true, .cache = false}, {}, start);
  std::this_thread::sleep_for(50ms);  // in the midst of the kernels
  const auto before = Background::Clock::now();
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // instead of waiting forever for a kernel that no thread of this process builds
    const bool right = compile->is_lost() && pipeline::compile(many_kernels(kKernels), kOptions).executable;
    _exit(right ? 0 : 1);
  }
  const auto forked = Background::Clock::now();
  ASSERT_FALSE(compile->is_done()) << "the compile was done too early to show anything";
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  ASSERT_TRUE(compile->wait_until(Background::Clock::time_point::max()));
  const auto whole = Background::Clock::now() - start;
  EXPECT_LT(forked - before, whole / 4);
}

TEST(Background, AnAbandonedCompileEnds) {
  const Fault slow("plan", [] { std::this_thread::sleep_for(100ms); });
  start().reset();
  EXPECT_TRUE(vesta::wait(60));
}

TEST(Cancel, EndsACompileAtTheNextStage) {
  CancelToken cancel;
  const Fault asked("plan", [&] { cancel.cancel(); });
  EXPECT_THROW(pipeline::compile(graph::parse(kProgram), kOptions, {}, nullptr, &cancel), Cancelled);
  CancelToken before;
  before.cancel();
  EXPECT_THROW(pipeline::compile(graph::parse(kProgram), kOptions, {}, nullptr, &before), Cancelled);
}

}  // namespace
