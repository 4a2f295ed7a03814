// Sources: one number for each, their texts, and how they are read.
#include "capture/python/sources/source.h"

#include "capture/python/sources/read_source.h"
#include "python.h"

namespace vesta::capture::testing {
namespace {

TEST(SourceTable, GivesEachSourceOneNumber) {
  Python py;
  const Object key = py.eval("'name'");
  SourceTable t;
  const int local = t.add(SourceKind::Local, -1, 0);
  const int item = t.add(SourceKind::SequenceItem, local, 1);
  EXPECT_EQ(t.add(SourceKind::Local, -1, 0), local);
  EXPECT_EQ(t.add(SourceKind::SequenceItem, local, 1), item);
  EXPECT_NE(t.add(SourceKind::SequenceItem, local, 2), item);
  EXPECT_NE(t.add(SourceKind::DictValue, local, 0, key.get()), t.add(SourceKind::DictValue, item, 0, key.get()));
  EXPECT_EQ(t.size(), 5);
}

TEST(SourceTable, TheFirstSourceOfAnObjectStays) {
  Python py;
  const Object x = py.eval("[1]");
  SourceTable t;
  EXPECT_EQ(t.find(x.get()), -1);
  t.know(x.get(), 3);
  t.know(x.get(), 5);
  EXPECT_EQ(t.find(x.get()), 3);
}

TEST(SourceTable, KeepsWhatItKnowsAliveAndPlacesDoNot) {
  Python py;
  py.run("class C: pass\nx = C()\ndead = []\nr = weakref.ref(x, dead.append)\n");
  SourceTable places;
  {
    SourceTable t;
    t.know(py.get("x"), t.add(SourceKind::Local, -1, 0));
    places = t.places();
    py.run("x = None");
    EXPECT_TRUE(py.holds("dead == []"));
  }
  EXPECT_TRUE(py.holds("len(dead) == 1"));
  EXPECT_EQ(places.size(), 1);
}

TEST(SourceTable, SaysSourcesAsAUserWritesThem) {
  Python py;
  py.run("def f(model, pair): return model\n");
  const Object code = py.eval("f.__code__");
  const Object weight = py.eval("'weight'"), number = py.eval("7");
  SourceTable t;
  const int model = t.add(SourceKind::Local, -1, 0), pair = t.add(SourceKind::Local, -1, 1);
  const int attributes = t.add(SourceKind::InstanceDict, model);
  const int globals = t.add(SourceKind::Globals, -1);
  EXPECT_EQ(t.text(model, code.get()), "model");
  EXPECT_EQ(t.text(t.add(SourceKind::DictValue, attributes, 0, weight.get()), code.get()), "model.weight");
  EXPECT_EQ(t.text(t.add(SourceKind::SequenceItem, pair, 1), code.get()), "pair[1]");
  EXPECT_EQ(t.text(t.add(SourceKind::DictValue, pair, 0, weight.get()), code.get()), "pair['weight']");
  EXPECT_EQ(t.text(t.add(SourceKind::DictValue, pair, 0, number.get()), code.get()), "pair[7]");
  EXPECT_EQ(t.text(t.add(SourceKind::DictValue, globals, 0, weight.get()), code.get()), "weight");
  EXPECT_EQ(t.text(t.add(SourceKind::Computed, model, 0, nullptr, pair), code.get()), "(model + pair)");
}

TEST(ReadSource, FollowsEveryKindOfContainer) {
  Python py;
  py.run(
      "class Slots:\n  __slots__ = ('s',)\n"
      "class C: pass\n"
      "x = C(); x.a = [10, 11]; x.d = {'k': 12}\n"
      "slots = Slots(); slots.s = 13\n"
      "def outer(cell=14):\n  def inner(a=15, *, b=16): return cell, a, b\n  return inner\n"
      "inner = outer()\n"
      "method = x.__class__.__init__.__get__(x)\n");
  const Roots roots{nullptr, nullptr, nullptr, nullptr};
  const auto read = [&](SourceKind kind, const Object& parent, int index = 0, PyObject* key = nullptr) {
    Object computed;
    const Source s{kind, 0, index, key};
    PyObject* found = read_source(s, roots, parent.get(), nullptr, &computed);
    return found && PyLong_Check(found) ? PyLong_AsLong(found) : found ? 0 : -1;
  };
  const Object k = py.eval("'k'"), missing = py.eval("'missing'");
  EXPECT_EQ(read(SourceKind::SequenceItem, py.eval("x.a"), 1), 11);
  EXPECT_EQ(read(SourceKind::SequenceItem, py.eval("x.a"), 2), -1);
  EXPECT_EQ(read(SourceKind::SequenceItem, py.eval("(1, 2)"), 1), 2);
  EXPECT_EQ(read(SourceKind::DictValue, py.eval("x.d"), 0, k.get()), 12);
  EXPECT_EQ(read(SourceKind::DictValue, py.eval("x.d"), 0, missing.get()), -1);
  EXPECT_EQ(read(SourceKind::DictKey, py.eval("{17: 0}"), 0), 17);
  EXPECT_EQ(read(SourceKind::DictKey, py.eval("{17: 0}"), 1), -1);
  EXPECT_EQ(read(SourceKind::CellContents, py.eval("inner.__closure__[0]")), 14);
  EXPECT_EQ(read(SourceKind::InstanceDict, py.eval("x")), 0);
  EXPECT_EQ(read(SourceKind::Referent, py.eval("weakref.ref(x)")), 0);
  EXPECT_FALSE(PyErr_Occurred());
}

TEST(ReadSource, ComputesAndOwnsTheResult) {
  Python py;
  const Object left = py.eval("2 ** 70"), right = py.eval("1");
  const Source s{SourceKind::Computed, 0, 0 /* + */, nullptr, 1};
  Object computed;
  PyObject* sum = read_source(s, {}, left.get(), right.get(), &computed);
  ASSERT_EQ(sum, computed.get());
  py.set("sum", sum);
  EXPECT_TRUE(py.holds("sum == 2 ** 70 + 1"));
  EXPECT_EQ(read_source(s, {}, left.get(), nullptr, &computed), nullptr);
}

}  // namespace
}  // namespace vesta::capture::testing
