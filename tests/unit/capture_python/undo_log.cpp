// The undo log: every kind of write is undone, and what a test checks last is what eager would have left.
#include "capture/python/tracer/undo_log.h"

#include <structmember.h>

#include "python.h"

namespace vesta::capture::testing {
namespace {

TEST(UndoLog, UndoesAppendsToAList) {
  Python py;
  py.run("x = [1, 2]; same = x");
  UndoLog log;
  ASSERT_EQ(log.items(py.get("x"), UndoLog::Writes::Append), 0);
  py.run("x.append(3); x.append(4)");
  EXPECT_TRUE(log.find(py.get("x"))->only_appended);
  log.roll_back();
  EXPECT_TRUE(py.holds("x == [1, 2] and x is same"));
}

TEST(UndoLog, UndoesAnyWriteToAList) {
  Python py;
  py.run("x = [1, 2, 3]");
  UndoLog log;
  ASSERT_EQ(log.items(py.get("x"), UndoLog::Writes::Append), 0);
  py.run("x.append(4)");
  ASSERT_EQ(log.items(py.get("x"), UndoLog::Writes::Any), 0);
  py.run("del x[0]; x.reverse(); x[0] = 9");
  EXPECT_FALSE(log.find(py.get("x"))->only_appended);
  log.roll_back();
  EXPECT_EQ(py.repr("x"), "[1, 2, 3]");
}

TEST(UndoLog, UndoesWritesToADictInItsOrder) {
  Python py;
  py.run("x = {'a': 1, 'b': 2, 'c': 3}");
  UndoLog log;
  ASSERT_EQ(log.dict(py.get("x")), 0);
  py.run("x['b'] = 20; x['d'] = 4; del x['a']; x['a'] = 5");
  log.roll_back();
  EXPECT_EQ(py.repr("x"), "{'a': 1, 'b': 2, 'c': 3}");
}

TEST(UndoLog, KnowsWhichKeysOfADictWereWritten) {
  Python py;
  py.run("class K: pass\nk = K(); x = {'a': 1, k: 2}");
  UndoLog log;
  const Object a = py.eval("'a'"), b = py.eval("'b'");
  ASSERT_EQ(log.dict(py.get("x"), a.get()), 0);
  ASSERT_EQ(log.dict(py.get("x"), py.get("k")), 0);
  py.run("x['a'] = 10");
  const UndoLog::Entry* e = log.find(py.get("x"));
  EXPECT_TRUE(e->wrote(a.get()) && e->wrote(py.get("k")));
  EXPECT_FALSE(e->wrote(b.get()));
  EXPECT_EQ(PyLong_AsLong(log.before(py.get("x"), a.get())), 1);
  EXPECT_EQ(log.before(py.get("x"), b.get()), nullptr);
  log.roll_back();
  EXPECT_TRUE(py.holds("x['a'] == 1"));
}

TEST(UndoLog, UndoesTheOrderOfAnOrderedDict) {
  Python py;
  py.run("x = collections.OrderedDict(a=1, b=2, c=3)");
  UndoLog log;
  ASSERT_EQ(log.dict(py.get("x")), 0);
  py.run("x.move_to_end('a'); x.popitem(last=False); x['d'] = 4");
  log.roll_back();
  EXPECT_TRUE(py.holds("list(x.items()) == [('a', 1), ('b', 2), ('c', 3)]"));
}

TEST(UndoLog, UndoesWritesToASet) {
  Python py;
  py.run("x = {1, 2, 3}; order = list(x)");
  UndoLog log;
  ASSERT_EQ(log.items(py.get("x"), UndoLog::Writes::Any), 0);
  py.run("x.discard(2); x.add(7)");
  log.roll_back();
  EXPECT_TRUE(py.holds("x == {1, 2, 3} and list(x) == order"));
}

TEST(UndoLog, UndoesAttributesThroughTheDictOfTheInstance) {
  Python py;
  py.run("class C: pass\nx = C(); x.a = 1; d = x.__dict__");
  UndoLog log;
  ASSERT_EQ(log.dict(py.get("d")), 0);
  py.run("x.a = 2; x.b = 3");
  log.roll_back();
  EXPECT_TRUE(py.holds("x.a == 1 and not hasattr(x, 'b')"));
}

TEST(UndoLog, UndoesSlots) {
  Python py;
  py.run("class C:\n  __slots__ = ('a', 'b')\nx = C(); x.a = 1; a = C.a; b = C.b");
  const auto offset = [&](const char* name) {
    return static_cast<int>(reinterpret_cast<PyMemberDescrObject*>(py.get(name))->d_member->offset);
  };
  UndoLog log;
  log.member(py.get("x"), offset("a"));
  log.member(py.get("x"), offset("b"));
  py.run("del x.a; x.b = 2");
  log.roll_back();
  EXPECT_TRUE(py.holds("x.a == 1 and not hasattr(x, 'b')"));
}

TEST(UndoLog, UndoesCells) {
  Python py;
  py.run(
      "def make():\n  n = 1\n  def get(): return n\n  def set(v):\n    nonlocal n\n    n = v\n  return get, set\n"
      "get, set = make(); cell = get.__closure__[0]");
  UndoLog log;
  log.cell(py.get("cell"));
  py.run("set(5)");
  ASSERT_TRUE(py.holds("get() == 5"));
  log.roll_back();
  EXPECT_TRUE(py.holds("get() == 1"));
}

TEST(UndoLog, UndoesTheLastWriteFirstAndKeepsAnErrorThatIsSet) {
  Python py;
  py.run("inner = [1]; x = {'inner': inner}; before = inner");
  UndoLog log;
  ASSERT_EQ(log.dict(py.get("x")), 0);
  ASSERT_EQ(log.items(py.get("inner"), UndoLog::Writes::Any), 0);
  ASSERT_EQ(log.entries().size(), 2u);
  EXPECT_EQ(log.entries()[0].target.get(), py.get("x"));
  py.run("inner.clear(); x['inner'] = [inner]; x['more'] = x");
  PyErr_SetString(PyExc_ValueError, "of the program");
  log.roll_back();
  EXPECT_TRUE(PyErr_ExceptionMatches(PyExc_ValueError));
  PyErr_Clear();
  EXPECT_TRUE(py.holds("x == {'inner': [1]} and x['inner'] is before"));
}

TEST(UndoLog, KeepsTheFirstStateOfAnObject) {
  Python py;
  py.run("x = [1]");
  UndoLog log;
  ASSERT_EQ(log.items(py.get("x"), UndoLog::Writes::Any), 0);
  py.run("x.append(2)");
  ASSERT_EQ(log.items(py.get("x"), UndoLog::Writes::Any), 0);
  py.run("x.append(3)");
  EXPECT_EQ(log.entries().size(), 1u);
  log.roll_back();
  EXPECT_EQ(py.repr("x"), "[1]");
}

}  // namespace
}  // namespace vesta::capture::testing
