// Dags without a schedule: print and parse are inverse, the verifier names what is wrong, the interpreter gives the
// meaning and checks every access. tests/unit/schedule_run.h compares dags with the kernels made of them.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <cmath>

#include "dag_reference.h"
#include "vesta/error.h"

namespace vesta::loops {
namespace {

const char* kSoftmax = R"(dag
size s0
range p0 parallel s0
range i0 inner 5
buffer b0 f32[5*s0] cpu align 4 read
buffer b1 f32[5*s0] cpu align 64 write
  %0 = load f32 b0[5*p0 + i0]
  %1 = accumulate f32 max %0
  %2 = result f32 %1
  %3 = sub f32 %0 %2
  %4 = exp f32 %3
  %5 = accumulate f32 sum %4
  %6 = result f32 %5
  %7 = div f32 %4 %6
  store f32 b1[5*p0 + i0] %7
)";

TEST(DagText, RoundTrip) {
  const auto dag = parse_dag(kSoftmax);
  verify(*dag);
  const std::string text = print(*dag);
  EXPECT_EQ(text, print(*parse_dag(text)));
  EXPECT_NE(text.find("load f32 b0[i0 + 5*p0]"), std::string::npos) << text;
  EXPECT_NE(text.find("buffer b1 f32[5*s0] cpu align 64 write"), std::string::npos) << text;
  EXPECT_EQ(dag->sizes().size(), 1u);
}

TEST(DagText, OrderGathersAndMasks) {
  const std::string text = R"(dag
size s0 >= 0
range p0 parallel 4
range i0 inner s0
buffer b0 i64[s0] cpu align 8 read
buffer b1 f32[32] cuda align 4 write in order
  %0 = load i64 b0[i0]
  x0 = indirect %0
  %1 = const i64 0
  %2 = ge i64 %0 %1
  %3 = load f32 b1[p0 + 4*x0] if %2
  %4 = const f32 1.5
  %5 = add f32 %3 %4
  store f32 b1[p0 + 4*x0] %5 if %2
)";
  const auto dag = parse_dag(text);
  verify(*dag);
  EXPECT_TRUE(dag->in_order());
  EXPECT_EQ(dag->buffers()[1].device, DeviceType::CUDA);
  EXPECT_EQ(print(*dag), text);
}

// The rest of a row's maximum, at the row's place.
const char* kLoss = R"(dag
range p0 parallel 4
range i0 inner 5
buffer b0 f32[20] cpu align 4 read
buffer b1 i64[4] cpu align 8 read
buffer b2 f32[4] cpu align 4 write
buffer b3 f32[4] cpu align 4 write
  %0 = load f32 b0[5*p0 + i0]
  %1 = accumulate f32 max %0
  %2 = result f32 %1
  %3 = load i64 b1[p0]
  %4 = index i64 [i0]
  %5 = eq i64 %3 %4
  %6 = sub f32 %0 %2
  %7 = const f32 0
  %8 = select f32 %5 %6 %7
  %9 = accumulate f32 sum %8
  %10 = result f32 %9
  store f32 b2[p0] %10
  store f32 b3[p0] %2
)";

TEST(Pick, OneTermOfASumIsLoadedAlone) {
  const std::vector<float> x = {1, 2, 3, 4, 5, -1, -2, -3, -4, -5, 0, 7, NAN, 7, 0, 9, 8, 7, 6, 5};
  // The second row's place is outside: no term is chosen, and none is read.
  const std::vector<int64_t> place = {4, 5, 0, -1};
  const auto run = [&](const Dag& dag) {
    std::vector<float> picked(4, -7), most(4, -7);
    void* const buffers[] = {const_cast<float*>(x.data()), const_cast<int64_t*>(place.data()), picked.data(),
                             most.data()};
    std::vector<void*> used;  // in the order of the Dag's own buffers
    for (const DagBuffer& b : dag.buffers()) used.push_back(buffers[b.id]);
    interpret(dag, used, {});
    picked.insert(picked.end(), most.begin(), most.end());
    return picked;
  };
  const auto dag = parse_dag(kLoss);
  const std::vector<float> want = run(*dag);
  dag->load_one_hot_terms();
  verify(*dag);
  const std::vector<float> got = run(*dag);
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_TRUE(want[i] == got[i] || (want[i] != want[i] && got[i] != got[i])) << i;
  const std::string text = print(*dag);
  EXPECT_EQ(text.find("sum"), std::string::npos) << text;
  EXPECT_NE(text.find("max"), std::string::npos) << text;
}

TEST(Pick, ALoopThatNothingElseNeedsIsGone) {
  const auto dag = parse_dag(R"(dag
range p0 parallel 4
range i0 inner 5
buffer b0 f32[20] cpu align 4 read
buffer b1 i64[4] cpu align 8 read
buffer b2 f32[4] cpu align 4 write
  %0 = load f32 b0[5*p0 + i0]
  %1 = load i64 b1[p0]
  %2 = index i64 [i0]
  %3 = eq i64 %2 %1
  %4 = const f32 0
  %5 = select f32 %3 %0 %4
  %6 = accumulate f32 sum %5
  %7 = result f32 %6
  store f32 b2[p0] %7
)");
  dag->load_one_hot_terms();
  verify(*dag);
  EXPECT_EQ(dag->ranges().size(), 1u);
}

TEST(Pick, OtherSumsStay) {
  for (const char* line : {"%3 = ne i64 %2 %1", "%3 = eq i64 %2 %2"}) {  // all but one; places that the loop decides
    const auto dag = parse_dag(fmt::format(R"(dag
range p0 parallel 4
range i0 inner 5
buffer b0 f32[20] cpu align 4 read
buffer b1 i64[4] cpu align 8 read
buffer b2 f32[4] cpu align 4 write
  %0 = load f32 b0[5*p0 + i0]
  %1 = load i64 b1[p0]
  %2 = index i64 [i0]
  {}
  %4 = const f32 0
  %5 = select f32 %3 %0 %4
  %6 = accumulate f32 sum %5
  %7 = result f32 %6
  store f32 b2[p0] %7
)",
                                           line));
    const std::string before = print(*dag);
    dag->load_one_hot_terms();
    EXPECT_EQ(print(*dag), before);
  }
}

TEST(DagText, WhatNoStoreNeedsIsLeftOut) {
  const auto dag = parse_dag(R"(dag
range p0 parallel 4
buffer b0 f32[4] cpu align 4 write
  %0 = load f32 b0[p0]
  %1 = exp f32 %0
  %2 = const f32 2
  store f32 b0[p0] %2
)");
  EXPECT_EQ(print(*dag), R"(dag
range p0 parallel 4
buffer b0 f32[4] cpu align 4 write
  %0 = const f32 2
  store f32 b0[p0] %0
)");
}

TEST(DagText, ParseErrorsNameTheLine) {
  try {
    parse_dag("dag\nbuffer b0 f32[4] cpu read\n");
    FAIL();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("expected align in line 2"), std::string::npos) << e.what();
  }
}

void expect_rejected(const std::string& text, const std::string& reason) {
  const auto dag = parse_dag(text);
  try {
    verify(*dag);
    ADD_FAILURE() << "accepted:\n" << text;
  } catch (const InternalError& e) {
    EXPECT_NE(std::string(e.what()).find(reason), std::string::npos) << e.what();
  }
}

// Once for each point of all ranges, whatever the place and the value depend on.
TEST(DagInterpret, AdditionsOfEveryPoint) {
  const auto dag = parse_dag(
      "dag\nrange p0 parallel 8\nrange i0 inner 4\nbuffer b0 f32[8] cpu align 4 write\n"
      "buffer b1 f32[1] cpu align 4 write\n %0 = const f32 1\n storeadd f32 b0[p0] %0\n storeadd f32 b1[0] %0\n");
  verify(*dag);
  EXPECT_EQ(print(*parse_dag(print(*dag))), print(*dag));
  std::vector<float> rows(8, 100), all(1);
  std::vector<void*> buffers = {rows.data(), all.data()};
  interpret(*dag, buffers, {});
  EXPECT_EQ(rows, std::vector<float>(8, 104));
  EXPECT_EQ(all[0], 32);
}

TEST(DagVerify, NamesTheBrokenRule) {
  const std::string head =
      "dag\nrange p0 parallel 8\nrange i0 inner 4\nbuffer b0 f32[32] cpu align 4 read\n"
      "buffer b1 f32[32] cpu align 4 write\n";
  const std::string load = " %0 = load f32 b0[4*p0 + i0]\n", store = " store f32 b1[4*p0 + i0] %0\n";
  verify(*parse_dag(head + load + store));
  expect_rejected(head + load, "it does nothing");
  expect_rejected(head + " %0 = load f32 b0[4*p0 + i0 + 32]\n" + store, "nowhere in the extent");
  expect_rejected(head + " %0 = load f32 b0[i0 - 4]\n" + store, "nowhere in the extent");
  expect_rejected(head + load + " store f32 b0[p0] %0\n", "only read");
  expect_rejected(head + load + " store f32 b7[p0] %0\n", "has no buffer");
  expect_rejected(head + " %0 = load f64 b0[p0]\n store f64 b1[p0] %0\n", "as f64");
  expect_rejected(head + load + " %1 = const f64 1\n %2 = add f32 %0 %1\n store f32 b1[p0] %2\n", "is f64, not f32");
  expect_rejected(head + load + " store f32 b1[p0] %0 if %0\n", "is not bool");
  expect_rejected(head + load + " %1 = accumulate f32 sum %0\n store f32 b1[p0] %1\n", "which has no value");
  expect_rejected(head + load + " %1 = result f32 %0\n store f32 b1[p0] %1\n", "does not name an accumulation");
  expect_rejected(head + load + " %1 = accumulate f32 sum %0\n %2 = result f64 %1\n store f32 b1[p0] %2\n",
                  "another type than its accumulation");
  verify(*parse_dag(head + load + " storeadd f32 b1[p0] %0\n"));
  expect_rejected(head + load + " storeadd f32 b1[p0] %0\n" + store, "adds to what others read or write");
  expect_rejected(head + load + " storeadd f32 b0[p0] %0\n", "adds to what others read or write");
  expect_rejected(head + " %0 = rowload f32 r0\n" + store, "is one of a schedule");
  expect_rejected(
      "dag\nrange p0 parallel 8\nbuffer b0 f32[8] cpu align 4 write\n %0 = load f32 b0[p0]\n"
      " %1 = accumulate f32 sum %0\n %2 = result f32 %1\n store f32 b0[p0] %2\n",
      "outside a loop");
  expect_rejected(
      "dag\nrange p0 parallel 8\nbuffer b0 f32[8] cpu align 2 write\n %0 = const f32 1\n"
      " store f32 b0[p0] %0\n",
      "aligned to 2 bytes");
  expect_rejected(
      "dag\nrange p0 parallel 8\nbuffer b0 f32[8] cpu align 12 write\n %0 = const f32 1\n"
      " store f32 b0[p0] %0\n",
      "aligned to 12 bytes");
  expect_rejected(
      "dag\nrange p0 parallel 8\nbuffer b0 c64[8] cpu align 8 write\n %0 = const f32 1\n"
      " store f32 b0[p0] %0\n",
      "has type c64");
  expect_rejected(
      "dag\nsize s0\nrange p0 parallel 8\nbuffer b0 f32[s0 - 3] cpu align 4 write\n"
      " %0 = const f32 1\n store f32 b0[p0] %0\n",
      "may be negative");
  expect_rejected(
      "dag\nrange p0 parallel 8\nbuffer b0 f32[p0] cpu align 4 write\n"
      " %0 = const f32 1\n store f32 b0[p0] %0\n",
      "p0 is not in scope");
}

// Errors that a text cannot express.
TEST(DagVerify, RangesAreOfTheirVariables) {
  const auto broken = [](const std::function<void(Dag&)>& change, const std::string& reason) {
    const auto dag = parse_dag(kSoftmax);
    change(*dag);
    try {
      verify(*dag);
      ADD_FAILURE() << "accepted, not: " << reason;
    } catch (const InternalError& e) {
      EXPECT_NE(std::string(e.what()).find(reason), std::string::npos) << e.what();
    }
  };
  broken([](Dag& d) { d.ranges()[1].extent = 4; }, "runs over another extent");
  broken([](Dag& d) { d.ranges().push_back(d.ranges()[1]); }, "share a variable");
  broken([](Dag& d) { d.ranges().pop_back(); }, "has no range");
  broken([](Dag& d) { d.ranges()[0].var = d.sizes()[0]; }, "has no loop symbol");
  broken(
      [](Dag& d) {
        Instr early;
        early.kind = InstrKind::Compute;
        early.prim = Prim::Neg;
        early.in[0] = static_cast<Ref>(d.instrs().size());
        d.append(early);
      },
      "comes before its operand");
}

TEST(DagInterpret, Softmax) {
  const auto dag = parse_dag(kSoftmax);
  std::vector<float> in = {1, 2, 3, 4, 5, -1, 0, 1, 0, -1}, out(10);
  void* buffers[] = {in.data(), out.data()};
  const int64_t sizes[] = {2};
  interpret(*dag, buffers, sizes);
  for (int row = 0; row < 2; ++row) {
    double sum = 0;
    for (int i = 0; i < 5; ++i) sum += std::exp(in[row * 5 + i]);
    for (int i = 0; i < 5; ++i) EXPECT_NEAR(out[row * 5 + i], std::exp(in[row * 5 + i]) / sum, 1e-7);
  }
}

TEST(DagInterpret, LoadsFindWhatWasThereBeforeUnlessInOrder) {
  const auto run = [](const char* order) {
    const auto dag = parse_dag(std::string("dag\nrange i0 inner 4\nbuffer b0 f32[5] cpu align 4 write") + order +
                               "\n %0 = load f32 b0[i0]\n"
                               " store f32 b0[i0 + 1] %0\n");
    verify(*dag);
    std::vector<float> x = {1, 2, 3, 4, 5};
    void* buffers[] = {x.data()};
    interpret(*dag, buffers, {});
    return x;
  };
  EXPECT_EQ(run(""), (std::vector<float>{1, 1, 2, 3, 4}));
  EXPECT_EQ(run(" in order"), (std::vector<float>{1, 1, 1, 1, 1}));
}

TEST(DagInterpret, AnAccessOutsideItsBufferIsNamedAndNotDone) {
  const auto dag = parse_dag(R"(dag
range p0 parallel 3
buffer b0 i64[3] cpu align 8 read
buffer b1 f32[4] cpu align 4 write
  %0 = load i64 b0[p0]
  x0 = indirect %0
  %1 = const f32 7
  store f32 b1[x0] %1
)");
  verify(*dag);
  for (const int64_t wrong : {int64_t{4}, int64_t{-1}}) {
    std::vector<int64_t> places = {0, 3, wrong};
    std::vector<float> out(6, 0);
    void* buffers[] = {places.data(), out.data() + 1};
    try {
      interpret(*dag, buffers, {});
      FAIL();
    } catch (const InternalError& e) {
      EXPECT_NE(std::string(e.what()).find(fmt::format("element {} of 4", wrong)), std::string::npos) << e.what();
    }
    EXPECT_EQ(out, (std::vector<float>{0, 7, 0, 0, 7, 0}));
  }
}

}  // namespace
}  // namespace vesta::loops
