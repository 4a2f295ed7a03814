#include "artifact/packing.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "artifact_sample.h"

namespace {

using namespace vesta;
using namespace vesta::artifact;
using vesta::testing::constant;
using vesta::testing::symbol;

TensorDesc vector_of(int64_t size) { return {DType::F32, {}, {constant(size)}, {constant(1)}}; }

// Builds an artifact with prepacked steps. keep() makes the result of a step an output.
class Maker {
 public:
  int parameter(int64_t size = 4) {
    a.inputs.push_back({vector_of(size), true, "w"});
    return buffer(Role::Input, vector_of(size), static_cast<int>(a.inputs.size()) - 1);
  }
  int buffer(Role role, TensorDesc type, int input = -1) {
    Buffer b;
    b.role = role;
    b.type = std::move(type);
    b.input = input;
    a.buffers.push_back(std::move(b));
    return static_cast<int>(a.buffers.size()) - 1;
  }
  int call(const std::string& op, const std::vector<int>& from, double number = 0, int64_t size = 4) {
    Extern call;
    call.op = op;
    for (const int b : from) call.args.push_back({whole(b)});
    call.args.push_back({number});
    call.results = {buffer(Role::Prepacked, vector_of(size))};
    call.source = "model.py:" + std::to_string(a.prepacked.size());
    a.prepacked.emplace_back(call);
    return call.results[0];
  }
  void launch(const std::string& symbol, const std::vector<int>& buffers, const std::string& label) {
    Launch l;
    l.object = std::make_shared<machine::Object>(machine::Object{machine::Form::Text, symbol, symbol});
    l.name = label;
    l.buffers = buffers;
    l.offsets.assign(buffers.size(), constant(0));
    l.items = l.scratch = l.item_cost = constant(1);
    a.prepacked.emplace_back(l);
  }
  void keep(int b) {
    Output o;
    o.view = whole(b);
    a.outputs.push_back(o);
  }
  std::vector<Packing> packings() const { return packings_of(a); }
  Artifact a;

 private:
  static View whole(int b) {
    View v;
    v.buffer = b;
    v.whole = true;
    return v;
  }
};

TEST(Packing, StepsThatDependOnEachOtherAreOnePacking) {
  Maker m;
  const int w = m.parameter(), v = m.parameter();
  const int scale = m.call("aten::rsqrt", {w});
  const int other = m.call("aten::neg", {v});
  const int scaled = m.call("aten::mul", {v, scale});
  for (const int b : {scale, other, scaled}) m.keep(b);
  const std::vector<Packing> packings = m.packings();
  ASSERT_EQ(packings.size(), 2u);
  EXPECT_EQ(packings[0].steps, (std::vector{0, 2}));
  EXPECT_EQ(packings[0].parameters, (std::vector{0, 1}));
  EXPECT_EQ(packings[0].kept, (std::vector{scale, scaled}));
  EXPECT_EQ(packings[1].steps, std::vector{1});
  EXPECT_EQ(packings[1].parameters, std::vector{1});
  EXPECT_EQ(packings[1].kept, std::vector{other});
}

TEST(Packing, PlaceLabelsAndLinesDoNotCount) {
  Maker one, two;
  const int a = one.call("aten::neg", {one.parameter()});
  one.launch("k", {a, one.buffer(Role::Prepacked, vector_of(4))}, "k0_add");
  two.parameter();
  two.buffer(Role::Arena, vector_of(9));
  two.keep(two.call("aten::exp", {two.parameter(7)}, 0, 7));
  const int b = two.call("aten::neg", {two.parameter()});
  two.launch("k", {b, two.buffer(Role::Prepacked, vector_of(4))}, "k5_add");
  one.keep(2);
  two.keep(6);
  const Packing first = one.packings().at(0), second = two.packings().at(1);
  EXPECT_EQ(first.name, second.name);
  EXPECT_FALSE(first.name.empty());
  EXPECT_EQ(second.parameters, std::vector{2});
}

TEST(Packing, WhatMakesOtherConstantsHasAnotherName) {
  const auto named = [](const std::function<void(Maker&)>& make) {
    Maker m;
    make(m);
    return m.packings().at(0).name;
  };
  std::vector<std::string> names;
  for (const char* op : {"aten::neg", "aten::exp"})
    names.push_back(named([&](Maker& m) { m.keep(m.call(op, {m.parameter()})); }));
  names.push_back(named([](Maker& m) { m.keep(m.call("aten::neg", {m.parameter()}, 0.5)); }));
  names.push_back(named([](Maker& m) { m.keep(m.call("aten::neg", {m.parameter(5)})); }));
  names.push_back(named([](Maker& m) { m.keep(m.call("aten::neg", {m.parameter()}, 0, 5)); }));
  for (const char* symbol : {"k", "l"}) {
    names.push_back(named([&](Maker& m) {
      const int w = m.parameter(), b = m.buffer(Role::Prepacked, vector_of(4));
      m.launch(symbol, {w, b}, "label");
      m.keep(b);
    }));
  }
  // One parameter twice, and two parameters.
  names.push_back(named([](Maker& m) {
    const int w = m.parameter();
    m.keep(m.call("aten::add", {w, w}));
  }));
  names.push_back(named([](Maker& m) { m.keep(m.call("aten::add", {m.parameter(), m.parameter()})); }));
  // The same steps, of which runs read others.
  for (const bool both : {false, true}) {
    names.push_back(named([&](Maker& m) {
      const int x = m.call("aten::neg", {m.parameter()});
      m.keep(m.call("aten::exp", {x}));
      if (both) m.keep(x);
    }));
  }
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
}

TEST(Packing, ASizeThatDependsOnASymbolHasNoName) {
  Maker m;
  const int w = m.parameter();
  m.a.buffers[0].type.sizes = {symbol(0)};
  m.keep(m.call("aten::neg", {w}));
  EXPECT_EQ(m.packings().at(0).name, "");
}

}  // namespace
