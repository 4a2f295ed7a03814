// Steps that return integers, by which the sizes of later steps are known.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <atomic>
#include <functional>
#include <thread>

#include "artifact/bytes.h"
#include "returned_sample.h"
#include "runtime/executable.h"
#include "vesta/error.h"

namespace {

using namespace vesta;
using namespace vesta::testing;
using artifact::Artifact;
using artifact::Role;

// Between other results, a tensor and how many rows it has.
std::tuple<at::Tensor, int64_t, at::Tensor> positive_rows(const at::Tensor& x) {
  const at::Tensor rows = x.index({x.select(1, 0) > 0});
  return {x.sum(), rows.size(0), rows};
}
double half(const at::Tensor& x) { return static_cast<double>(x.size(0)) / 2; }

TORCH_LIBRARY(vesta_returned_test, m) {
  m.def("positive_rows", positive_rows);
  m.def("half", half);
}

using Values = std::vector<c10::IValue>;

Artifact through_bytes(const Artifact& a) { return artifact::decode(artifact::encode(a)); }

Values run(const runtime::Executable& e, const std::vector<at::Tensor>& in, const std::vector<int64_t>& integers = {}) {
  std::string why;
  EXPECT_TRUE(e.accepts(in, integers, &why)) << why;
  Values out;
  e.run(in, integers, out);
  return out;
}

at::Tensor counts(int64_t first) { return at::tensor({first, int64_t{1}, int64_t{2}, int64_t{3}, int64_t{4}}); }

bool is_right(const Values& out, const at::Tensor& x, int64_t n) {
  return at::equal(out[0].toTensor(), 2 * x.slice(0, 0, n) + 1) && at::equal(out[1].toTensor(), 2 * x + 1) &&
         at::equal(out[2].toTensor(), at::full({3 * n}, 1.5)) && out[3].toInt() == n * n + x.size(0) &&
         at::equal(out[4].toTensor(), out[0].toTensor().select(1, 1)) &&
         out[4].toTensor().is_alias_of(out[0].toTensor());
}

TEST(Returned, AreSizesOfLaterSteps) {
  const runtime::Executable e(through_bytes(returning()));
  for (const auto& [rows, n] : {std::pair(6, 3), {6, 3}, {6, 5}, {4, 4}, {6, 3}, {6, 0}, {9, 1}, {4, 4}, {70, 63}}) {
    const at::Tensor x = at::randn({rows, 4});
    EXPECT_TRUE(is_right(run(e, {x, counts(n)}), x, n)) << rows << " " << n;
  }
}

TEST(Returned, ManyThreadsRunOneArtifact) {
  const runtime::Executable e(returning());
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const at::Tensor x = at::full({4 + (t + i) % 12, 4}, 0.5 * t);
        const int64_t n = (t * i) % 4;
        right += is_right(run(e, {x, counts(n)}), x, n);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, 600);
}

std::string error_of(const Artifact& a, const std::vector<at::Tensor>& in) {
  const runtime::Executable e(through_bytes(a));
  try {
    run(e, in);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

TEST(Returned, WhatIsNoSizeIsAnError) {
  const at::Tensor x = at::randn({6, 4});
  const auto said = [&](int64_t n) { return error_of(returning(), {x, counts(n)}); };
  EXPECT_NE(said(-2).find("aten::item returned integers that make -2 the size of a tensor"), std::string::npos);
  EXPECT_NE(said(INT64_MIN).find("the size of a tensor"), std::string::npos);
  EXPECT_NE(said(7).find("aten::slice_copy.Tensor returned Float[6, 4], the graph says Float[7, 4]"), std::string::npos)
      << said(7);
  for (const int64_t n : {int64_t{1} << 40, int64_t{1} << 54, int64_t{1} << 62, INT64_MAX})
    EXPECT_NE(said(n), "none") << n;
  // A view that the integer moves out of its buffer.
  Artifact a = returning();
  std::get<artifact::Extern>(a.steps[2]).args[0] = {artifact::View{
      0, DType::F32, {symbol(1), constant(4)}, {constant(4), constant(1)}, times(constant(4), symbol(1)), false}};
  EXPECT_EQ(error_of(a, {x, counts(3)}), "none");
  EXPECT_NE(error_of(a, {x, counts(4)}).find("a view beyond its buffer"), std::string::npos);
}

TEST(Returned, WhatIsNoIntegerIsAnError) {
  const at::Tensor x = at::randn({6, 4});
  const auto with = [&](const std::string& op, std::vector<artifact::Arg> args, std::vector<int> symbols = {1}) {
    Artifact a = returning();
    a.steps[1] = integers_of(op, std::move(args), std::move(symbols));
    return error_of(a, {x, counts(3)});
  };
  const artifact::Arg first{artifact::View{0, DType::F32, {}, {}, constant(0), false}};
  EXPECT_EQ(with("aten::sym_size.int", {{whole_of(0)}, {constant(1)}}), "none");
  EXPECT_NE(with("aten::item", {first}).find("aten::item returned Double as result 0, the graph says an integer"),
            std::string::npos);
  EXPECT_NE(with("vesta_returned_test::half", {{whole_of(0)}}).find("returned Double"), std::string::npos);
  EXPECT_NE(with("aten::relu", {{whole_of(0)}}).find("returned Tensor as result 0"), std::string::npos);
  EXPECT_NE(with("aten::unbind_copy.int", {{whole_of(0)}, {constant(0)}}).find("returned GenericList as result 0"),
            std::string::npos);
  EXPECT_NE(with("aten::sym_size.int", {{whole_of(0)}, {constant(1)}}, {1, -1}).find("returned 1 results, the graph"),
            std::string::npos);
  EXPECT_NE(with("vesta_returned_test::positive_rows", {{whole_of(0)}}).find("result 0"), std::string::npos);
  // Where a tensor is promised there is an integer.
  Artifact a = returning();
  a.steps[2] = tensor_of("aten::sym_size.int", {{whole_of(0)}, {constant(0)}}, 3);
  EXPECT_NE(error_of(a, {x, counts(3)}).find("did not return a strided tensor"), std::string::npos);
}

// One call returns tensors, one of them as long as the integer beside them says.
Artifact positives(Role role) {
  Artifact a;
  a.inputs = {{rows_of_4(symbol(1)), false, "x"}};
  a.symbols = {{artifact::kReturned, 0, false}, {0, 0, false}, {artifact::kArgument, 0, false}};
  const int x = add_buffer_of(a, Role::Input, rows_of_4(symbol(1)), 0);
  const int rows = add_buffer_of(a, role, rows_of_4(symbol(0)), role == Role::Output ? 0 : -1);
  artifact::Extern call = integers_of("vesta_returned_test::positive_rows", {{whole_of(x)}}, {-1, 0, -1});
  call.results = {-1, -1, rows};
  a.steps = {call};
  artifact::Output integer;
  integer.kind = artifact::OutputKind::Integer;
  integer.integer = plus(times(constant(100), symbol(2)), symbol(0));
  a.outputs = {fresh_of(rows), integer};
  finish_lives(a);
  return a;
}

TEST(Returned, BesideTensorsOfThatSize) {
  for (const Role role : {Role::Output, Role::Returned}) {
    const runtime::Executable e(through_bytes(positives(role)));
    for (const int64_t rows : {5, 9, 5}) {
      const at::Tensor x = at::randn({rows, 4}), expected = x.index({x.select(1, 0) > 0});
      const Values out = run(e, {x}, {7});
      EXPECT_TRUE(at::equal(out[0].toTensor(), expected));
      EXPECT_EQ(out[1].toInt(), 700 + expected.size(0));
    }
    EXPECT_FALSE(e.accepts(std::vector<at::Tensor>{at::randn({5, 4})}, {}));  // an integer of the caller's is missing
  }
}

// The input is written before sizes are known: what they say is allocated after it.
Artifact updating() {
  Artifact a;
  const artifact::TensorDesc n{DType::I64, {}, {}, {}};
  a.inputs = {{rows_of_4(constant(6)), false, "x"}, {n, false, "n"}};
  a.symbols = {{artifact::kReturned, 0, false}};
  a.mutated = {0};
  const int x = add_buffer_of(a, Role::Input, rows_of_4(constant(6)), 0);
  const int count = add_buffer_of(a, Role::Input, n, 1);
  const int known = add_buffer_of(a, Role::Output, rows_of_4(constant(6)), 0);
  const int some = add_buffer_of(a, Role::Output, rows_of_4(symbol(0)), 1);
  const int unwritten = add_buffer_of(a, Role::Output, rows_of_4(symbol(0)), 2);
  a.steps = {twice_plus_one_of(x, x, constant(6)), integers_of("aten::item", {{whole_of(count)}}, {0}),
             twice_plus_one_of(x, known, constant(6)), twice_plus_one_of(x, some, symbol(0)),
             artifact::CopyBack{whole_of(x), x}};
  a.outputs = {fresh_of(known), fresh_of(some), fresh_of(unwritten)};
  finish_lives(a);
  return a;
}

TEST(Returned, AfterAnInputIsWritten) {
  const runtime::Executable e(through_bytes(updating()));
  for (const int64_t n : {2, 5, 0}) {
    const at::Tensor x = at::randn({6, 4}), expected = 2 * x + 1;
    const Values out = run(e, {x, at::scalar_tensor(n, at::kLong)});
    EXPECT_TRUE(at::equal(x, expected));
    EXPECT_TRUE(at::equal(out[0].toTensor(), 2 * expected + 1));
    EXPECT_TRUE(at::equal(out[1].toTensor(), 2 * expected.slice(0, 0, n) + 1));
    EXPECT_EQ(out[2].toTensor().sizes(), (std::vector<int64_t>{n, 4}));
  }
  EXPECT_THROW(run(e, {at::randn({6, 4}), at::scalar_tensor(-1, at::kLong)}), runtime::FailedAfterWriting);
}

// An entry's symbols are its own; what it returns is as large as the caller says, or an error.
TEST(Returned, InAnEntry) {
  const Artifact a = calls_returning();
  const at::Tensor in = at::randn({6, 4});
  const runtime::Executable e(through_bytes(a));
  EXPECT_TRUE(at::equal(run(e, {in, counts(3)})[0].toTensor(), 2 * in.slice(0, 0, 3) + 1));
  EXPECT_NE(error_of(a, {in, counts(4)}).find("entry 0 returned Float[4, 4], the graph says Float[3, 4]"),
            std::string::npos);
  Artifact takes = a;
  takes.entries[0].symbols.push_back({artifact::kArgument, 0, false});
  EXPECT_THROW(artifact::verify(takes), InternalError);
}

// Sizes resolved for one step are valid for the steps after it.
TEST(Returned, ByThousandsOfSteps) {
  constexpr int kSteps = 2'000;
  Artifact a;
  const artifact::TensorDesc n{DType::I64, {}, {}, {}};
  a.inputs = {{n, false, "n"}};
  const int from = add_buffer_of(a, Role::Input, n, 0);
  for (int i = 0; i < kSteps; ++i) {
    a.symbols.push_back({artifact::kReturned, 0, false});
    a.steps.emplace_back(integers_of("aten::item", {{whole_of(from)}}, {i}));
  }
  artifact::Output integer;
  integer.kind = artifact::OutputKind::Integer;
  integer.integer = plus(symbol(0), symbol(kSteps - 1));
  a.outputs = {integer};
  finish_lives(a);
  const runtime::Executable e(a);
  for (const int64_t i : {3, 4, 4}) EXPECT_EQ(run(e, {at::scalar_tensor(i, at::kLong)})[0].toInt(), 2 * i);
}

}  // namespace
