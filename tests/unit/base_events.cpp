#include "base/events.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/stage_clock.h"

namespace vesta::events {
namespace {

// Records as long as it lives.
struct Recording {
  Recording() { EXPECT_TRUE(start()); }
  ~Recording() { stop(); }
};

TEST(Events, NothingIsRecordedUnlessAskedFor) {
  {
    const Recording empty;
  }
  EXPECT_FALSE(is_on());
  record(Type::Break, "print");
  Span span(Type::Run, "f");
  EXPECT_EQ(span.event(), nullptr);
  EXPECT_TRUE(recorded().events.empty());
}

TEST(Events, ASpanHasItsTimeAndTheIdsOfItsThread) {
  const Recording on;
  EXPECT_FALSE(start());  // one recording at a time
  {
    const Within within({.call = 1, .frame = 2, .segment = 3, .variant = 4});
    Span outer(Type::Capture, "f:1");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    {
      const StageClock stage("plan");
    }
    record(Type::Kernel, "k0", "compiled", "symbol", "entry");
    Span dropped(Type::Run, "f:1");
    dropped.drop();
  }
  EXPECT_EQ(current().call, 0);
  const auto all = recorded().events;
  ASSERT_EQ(all.size(), 3u);
  const Event &stage = all[0], &kernel = all[1], &outer = all[2];
  EXPECT_EQ(name_of(stage.type), "stage");
  EXPECT_EQ(stage.name, "plan");
  EXPECT_EQ(kernel.kernel, "symbol");
  EXPECT_EQ(kernel.entry, "entry");
  EXPECT_EQ(kernel.us, 0);
  EXPECT_GE(outer.us, 1000);
  EXPECT_GE(stage.start_us, outer.start_us);
  EXPECT_LE(stage.start_us + stage.us, outer.start_us + outer.us);
  for (const Event& e : all) {
    EXPECT_EQ(e.ids.call, 1);
    EXPECT_EQ(e.ids.variant, 4);
    EXPECT_EQ(e.process, getpid());
    EXPECT_EQ(e.thread, gettid());
  }
}

TEST(Events, TheOldestMakeRoom) {
  const Recording on;
  for (size_t i = 0; i < kMostEvents + 10; ++i) record(Type::Eager, std::to_string(i));
  const Recorded all = recorded();
  EXPECT_EQ(all.events.size(), kMostEvents);
  EXPECT_EQ(all.dropped, 10);
  EXPECT_EQ(all.events.front().name, "10");
}

TEST(Events, ThreadsHaveTheirOwnIds) {
  const Recording on;
  std::vector<std::thread> threads;
  for (int64_t t = 1; t <= 4; ++t)
    threads.emplace_back([t] {
      const Within within({.call = t});
      for (int i = 0; i < 1000; ++i) record(Type::Eager, std::to_string(t));
    });
  for (std::thread& t : threads) t.join();
  const auto all = recorded().events;
  EXPECT_EQ(all.size(), 4000u);
  for (const Event& e : all) EXPECT_EQ(std::to_string(e.ids.call), e.name);
}

TEST(Events, AnyTextIsOneLineOfJson) {
  const std::string line = to_json({.type = Type::Eager, .name = "a\n\"b\" \xff", .start_us = 1.5});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_NE(line.find(R"("name":"a\n\"b\" )"), std::string::npos) << line;
  EXPECT_NE(line.find(R"("start_us":1.5)"), std::string::npos);
}

}  // namespace
}  // namespace vesta::events
