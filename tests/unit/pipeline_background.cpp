// Compiles on threads of their own: results, failures, waiting, cancellation, faults.
#include <gtest/gtest.h>

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

// Also for a GPU, except where kernels are measured on it: the program must not use it meanwhile.
TEST(Background, CompilesForGpus) {
  std::string text(kProgram);
  for (size_t at = 0; (at = text.find("8]", at)) != std::string::npos; at += 2) text.insert(at + 2, "@cuda:0");
  for (const bool measures : {false, true}) {
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

TEST(Background, RunsMoreCompilesThanItHasIdleThreads) {
  const Fault slow("passes", [] { std::this_thread::sleep_for(1ms); });
  std::vector<std::shared_ptr<Background>> all;
  for (int i = 0; i < 32; ++i) all.push_back(start());
  EXPECT_TRUE(vesta::wait());
  for (const auto& compile : all) EXPECT_TRUE(compile->take().executable);
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
