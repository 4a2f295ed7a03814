// Symbols that steps define: what is said of them, and what verify() refuses.
#include "artifact/returned.h"

#include <gtest/gtest.h>

#include <functional>

#include "artifact/bytes.h"
#include "returned_sample.h"
#include "vesta/error.h"

namespace vesta::artifact {
namespace {

using namespace vesta::testing;

Extern& call_of(Artifact& a, size_t step) { return std::get<Extern>(a.steps[step]); }

TEST(Returned, ComesBackFromBytes) {
  const Artifact a = returning();
  verify(a);
  const std::string bytes = encode(a);
  const Artifact b = decode(bytes);
  EXPECT_EQ(print(b), print(a));
  EXPECT_EQ(encode(b), bytes);
  EXPECT_EQ(b.symbols[1].input, kReturned);
  EXPECT_EQ(std::get<Extern>(b.steps[1]).integers, std::vector<int>{1});
  EXPECT_TRUE(std::get<Extern>(b.steps[2]).integers.empty());
}

TEST(Returned, IsPrinted) {
  Artifact a = returning();
  call_of(a, 4).results = {-1, 3, -1};
  call_of(a, 4).integers = {-1, -1, 2};
  const std::string text = print(a);
  for (const char* line : {"symbol s1 = returned by a step\n", "\n1: s1 = aten::item(b1:i64[]x[]+0)\n",
                           "\n4: _, b3, s2 = aten::sym_size.int(b4, 0)\n", "\noutput 3 = (s1*s2 + s0)\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

TEST(Returned, SizesAreKnownAfterTheStepsThatDefineThem) {
  const Artifact a = returning();
  const Definitions when(a);
  EXPECT_FALSE(when.none());
  EXPECT_EQ(when.known_after(constant(4)), kBeforeTheRun);
  EXPECT_EQ(when.known_after(symbol(0)), kBeforeTheRun);
  EXPECT_EQ(when.known_after(symbol(1)), 1);
  EXPECT_EQ(when.known_after(plus(symbol(2), symbol(1))), 4);
  EXPECT_EQ(when.known_after(a.buffers[6].type), 4);
  const std::vector<int> next = {1, 1, 4, 4, 4, 7, 7, 7};
  for (int step = 0; step < 8; ++step) EXPECT_EQ(when.next(step), next[static_cast<size_t>(step)]) << step;
  EXPECT_TRUE(Definitions(sample()).none());
}

struct Damage {
  std::function<void(Artifact&)> make;
  const char* said;
};

void expect_refused(const std::vector<Damage>& damages) {
  for (size_t i = 0; i < damages.size(); ++i) {
    Artifact a = returning();
    damages[i].make(a);
    try {
      verify(a);
      ADD_FAILURE() << "damage " << i << " was taken";
    } catch (const InternalError& e) {
      EXPECT_NE(std::string(e.what()).find(damages[i].said), std::string::npos) << "damage " << i << ": " << e.what();
    }
    EXPECT_THROW(decode(encode(a)), InternalError) << "damage " << i;
  }
}

TEST(Returned, EachSymbolHasOneStepThatDefinesIt) {
  expect_refused({
      {[](Artifact& a) { a.symbols[1].input = -3; }, "of input -3"},
      {[](Artifact& a) { a.symbols[1].input = kArgument; },
       "aten::item defines symbol 1, which is not a symbol of a step"},
      {[](Artifact& a) { a.symbols[1] = {0, 1, false}; }, "which is not a symbol of a step"},
      {[](Artifact& a) { a.symbols[0].input = kReturned; }, "0 steps define symbol 0"},
      {[](Artifact& a) { call_of(a, 1).integers.clear(); }, "0 steps define symbol 1"},
      {[](Artifact& a) { a.steps.push_back(a.steps[1]); }, "2 steps define symbol 1"},
      {[](Artifact& a) { call_of(a, 1).integers = {1, 1}, call_of(a, 1).results = {-1, -1}; }, "2 steps define"},
      {[](Artifact& a) { call_of(a, 1).integers = {3}; }, "defines symbol 3"},
      {[](Artifact& a) { call_of(a, 1).integers = {-2}; }, "defines symbol -2"},
      {[](Artifact& a) { call_of(a, 1).integers = {1, -1}; }, "has 1 results but says what 2 of them define"},
      {[](Artifact& a) { call_of(a, 1).results = {3}; }, "returns an integer to buffer 3"},
      {[](Artifact& a) { call_of(a, 2).integers = {-1}; }, "defines none"},
      {[](Artifact& a) { a.is_static = true; }, "not constant"},
      {[](Artifact& a) { a.prepacked = {a.steps[1]}; }, "the aten::item of a prepacked constant"},
  });
}

TEST(Returned, NothingIsNeededBeforeItIsKnown) {
  const auto reads = [](const Size& size) { return View{0, DType::F32, {size}, {constant(1)}, constant(0), false}; };
  expect_refused({
      {[](Artifact& a) { a.guards[0].left = symbol(1); }, "a guard needs a size that step 1 defines before the run"},
      {[](Artifact& a) { a.guards[0].right = symbol(2); }, "a guard needs a size that step 4"},
      {[](Artifact& a) { a.inputs[0].type.sizes[0] = a.buffers[0].type.sizes[0] = symbol(1); }, "an input needs"},
      {[](Artifact& a) { a.inputs[0].type.strides[0] = a.buffers[0].type.strides[0] = symbol(1); }, "an input needs"},
      {[](Artifact& a) { a.buffers[2].type.sizes[0] = symbol(1); }, "the arena needs"},
      {[](Artifact& a) { a.buffers[2].bytes = symbol(1); }, "the arena needs"},
      {[](Artifact& a) { a.buffers[3].role = Role::Arena; }, "the arena needs"},
      {[](Artifact& a) { a.prepacked = {a.steps[2]}; },
       "a prepacked constant needs a size that step 1 defines before the run"},
      {[&](Artifact& a) { a.prepacked = {tensor_of("aten::relu", {{reads(symbol(1))}}, 5)}; },
       "a prepacked constant needs"},
      // Each kind of size that a step has.
      {[](Artifact& a) { std::get<Launch>(a.steps[0]).sizes[0] = symbol(1); },
       "a step needs a size that step 1 defines"},
      {[](Artifact& a) { std::get<Launch>(a.steps[0]).offsets[0] = symbol(1); }, "a step needs"},
      {[](Artifact& a) { std::get<Launch>(a.steps[0]).items = symbol(1); }, "a step needs"},
      {[](Artifact& a) { std::get<Launch>(a.steps[3]).scratch = symbol(2); }, "step 4 defines, after step 2"},
      {[](Artifact& a) { std::get<Launch>(a.steps[3]).item_cost = symbol(2); }, "a step needs"},
      {[](Artifact& a) { call_of(a, 2).args[3] = {symbol(2)}; }, "a step needs"},
      {[](Artifact& a) { call_of(a, 2).args[3] = {std::vector<Size>{symbol(0), symbol(2)}}; }, "a step needs"},
      {[&](Artifact& a) { call_of(a, 2).args[0] = {reads(symbol(2))}; }, "a step needs"},
      {[&](Artifact& a) { call_of(a, 2).args[0] = {std::vector<View>{reads(symbol(2))}}; }, "a step needs"},
      // The call that defines a symbol takes nothing that has it.
      {[](Artifact& a) { call_of(a, 1).args = {{symbol(1)}}; }, "step 1 defines, after step 0"},
      {[](Artifact& a) { call_of(a, 4).args[0] = {whole_of(6)}; }, "step 4 defines, after step 3"},
      // Buffers that a step reads, that a kernel writes and that a call returns.
      {[](Artifact& a) { std::swap(a.steps[4], a.steps[5]); }, "a step needs"},
      {[](Artifact& a) { a.buffers[4].type.sizes[0] = symbol(2); }, "a step needs"},
      {[](Artifact& a) { a.buffers[3].type.sizes[0] = symbol(2); }, "a step needs"},
      {[](Artifact& a) { std::swap(a.steps[1], a.steps[2]); }, "a step needs"},
      // Neither does an entry return what only a later step defines.
      {[](Artifact& a) {
         Artifact entry;
         entry.is_static = true;
         const int made = add_buffer_of(entry, Role::Returned, rows_of_4(constant(3)));
         entry.steps = {tensor_of("aten::full", {}, made)};
         entry.outputs = {fresh_of(made)};
         finish_lives(entry);
         a.entries = {entry};
         a.steps.insert(a.steps.begin(), Call{0, {}, {3}, ""});
         finish_lives(a);
       },
       "step 2 defines, after step 0"},
  });
}

// A result beside a returned integer may have that integer as a size.
TEST(Returned, ACallDefinesSizesOfItsOwnResults) {
  Artifact a = returning();
  call_of(a, 1).results = {-1, 3};
  call_of(a, 1).integers = {1, -1};
  a.steps.erase(a.steps.begin() + 2);
  finish_lives(a);
  verify(a);
}

}  // namespace
}  // namespace vesta::artifact
