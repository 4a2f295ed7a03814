// Epilogues: objects are rebuilt with their aliases, and writes are replayed on objects that existed before.
#include "capture/python/epilogue/epilogue.h"

#include <structmember.h>

#include "capture/python/epilogue/reconstruct.h"
#include "capture/python/epilogue/writes.h"
#include "python.h"

namespace vesta::capture::testing {
namespace {

class Rebuild : public ::testing::Test {
 protected:
  int add(Make make, std::vector<int> parts = {}, PyObject* object = nullptr, int index = 0) {
    if (object) epilogue.kept.push_back(Object::share(object));
    epilogue.reconstructions.push_back({make, index, object, std::move(parts)});
    return static_cast<int>(epilogue.reconstructions.size()) - 1;
  }
  int constant(const std::string& code) { return add(Make::Constant, {}, py.eval(code).get()); }
  // An object that existed before, by the name of the test's variable.
  int source(const char* name) {
    found.push_back(Object::share(py.get(name)));
    return add(Make::Source, {}, nullptr, static_cast<int>(found.size()) - 1);
  }
  // Makes the object and puts it under the name `made`.
  void make(int reconstruction) {
    Reconstructor objects(epilogue, found, outputs);
    PyObject* x = objects.make(reconstruction);
    if (!x) PyErr_Print();
    ASSERT_NE(x, nullptr);
    py.set("made", x);
  }
  void write(SideEffect effect) {
    Reconstructor objects(epilogue, found, outputs);
    const bool done = replay(effect, objects);
    if (!done) PyErr_Print();
    EXPECT_TRUE(done);
  }

  Python py;
  Epilogue epilogue;
  std::vector<Object> found, outputs;
};

TEST_F(Rebuild, Containers) {
  const int one = constant("1"), two = constant("2"), key = constant("'k'");
  make(add(Make::Tuple, {one, two, one}));
  EXPECT_TRUE(py.holds("made == (1, 2, 1)"));
  make(add(Make::List, {two, one}));
  EXPECT_TRUE(py.holds("made == [2, 1]"));
  make(add(Make::Set, {two, one}));
  EXPECT_TRUE(py.holds("made == {1, 2} and type(made) is set"));
  make(add(Make::FrozenSet, {two}));
  EXPECT_TRUE(py.holds("made == frozenset((2,)) and type(made) is frozenset"));
  make(add(Make::Dict, {key, one, two, key}));
  EXPECT_TRUE(py.holds("list(made.items()) == [('k', 1), (2, 'k')]"));
  make(add(Make::OrderedDict, {two, one, key, two}));
  EXPECT_TRUE(py.holds("type(made) is collections.OrderedDict and list(made) == [2, 'k']"));
  make(add(Make::Slice, {one, two, constant("None")}));
  EXPECT_TRUE(py.holds("made == slice(1, 2, None)"));
}

TEST_F(Rebuild, AnObjectOfTwoPlacesIsOneObject) {
  const int inner = add(Make::List, {constant("1")});
  make(add(Make::Tuple, {inner, add(Make::Dict, {constant("'same'"), inner})}));
  EXPECT_TRUE(py.holds("made[0] is made[1]['same'] and made[0] == [1]"));
}

TEST_F(Rebuild, AListMayHoldItself) {
  const int list = add(Make::List);
  epilogue.reconstructions[static_cast<size_t>(list)].parts = {constant("1"), list};
  make(list);
  EXPECT_TRUE(py.holds("made[0] == 1 and made[1] is made"));
  py.run("made.clear()");
}

TEST_F(Rebuild, EachCallMakesNewObjectsOfTheSameConstants) {
  py.run("shared = object()");
  const int tuple = add(Make::List, {constant("shared")});
  make(tuple);
  py.run("first = made");
  make(tuple);
  EXPECT_TRUE(py.holds("made is not first and made[0] is first[0]"));
}

TEST_F(Rebuild, SourcesAndOutputsAreTheObjectsOfTheCall) {
  py.run("x = [1]; y = torch.ones(2)");
  outputs.push_back(Object::share(py.get("y")));
  make(add(Make::Tuple, {source("x"), add(Make::Output)}));
  EXPECT_TRUE(py.holds("made[0] is x and made[1] is y"));
}

TEST_F(Rebuild, InstancesAreMadeWithoutTheirConstructor) {
  py.run("class C:\n  def __init__(self): raise SystemError\nclass D(dict): pass\n");
  make(add(Make::Instance, {add(Make::Null), constant("'a'"), constant("1")}, py.get("C"), 1));
  EXPECT_TRUE(py.holds("type(made) is C and made.__dict__ == {'a': 1}"));
  const int payload = add(Make::Dict, {constant("'k'"), constant("2")});
  make(add(Make::Instance, {payload, constant("'a'"), constant("1")}, py.get("D"), 1));
  EXPECT_TRUE(py.holds("type(made) is D and made == {'k': 2} and made.a == 1"));
}

TEST_F(Rebuild, FunctionsHaveTheirParts) {
  py.run("def g(a, b=1, *, c=2):\n  'doc'\n  return a + b + c\n");
  const int null = add(Make::Null);
  make(add(Make::Function,
           {constant("g.__globals__"), constant("'renamed'"), constant("(10,)"), constant("{'c': 20}"), null, null,
            constant("{}"), null, constant("'g'"), constant("'doc'"), constant("'here'")},
           py.eval("g.__code__").get()));
  EXPECT_TRUE(py.holds("made(1) == 31 and made.__qualname__ == 'renamed' and made.__module__ == 'here'"));
}

TEST_F(Rebuild, AFailureLeavesThePythonError) {
  Reconstructor objects(epilogue, found, outputs);
  const int call = add(Make::Call, {constant("int"), constant("'no number'")});
  EXPECT_EQ(Reconstructor(epilogue, found, outputs).make(call), nullptr);
  EXPECT_TRUE(PyErr_ExceptionMatches(PyExc_ValueError));
  PyErr_Clear();
}

TEST_F(Rebuild, ReplaysWritesToADict) {
  py.run("d = {'a': 1, 'b': 2}; kept = d");
  const int target = source("d");
  write({Write::DictSet, target, constant("'c'"), constant("3")});
  write({Write::DictSet, target, constant("'a'"), constant("10")});
  write({Write::DictDelete, target, constant("'b'")});
  EXPECT_TRUE(py.holds("list(d.items()) == [('a', 10), ('c', 3)] and d is kept"));
  SideEffect all{Write::DictAssign, target};
  all.parts = {constant("'z'"), constant("1"), constant("'a'"), constant("2")};
  write(all);
  EXPECT_TRUE(py.holds("list(d.items()) == [('z', 1), ('a', 2)] and d is kept"));
}

TEST_F(Rebuild, ReplaysWritesToAnOrderedDictInItsOwnOrder) {
  py.run("d = collections.OrderedDict(a=1, b=2)");
  const int target = source("d");
  write({Write::DictSet, target, constant("'c'"), constant("3")});
  write({Write::DictDelete, target, constant("'a'")});
  EXPECT_TRUE(py.holds("list(d.items()) == [('b', 2), ('c', 3)]"));
}

TEST_F(Rebuild, ReplaysWritesToListsAndSets) {
  py.run("l = [1]; s = {1, 2}");
  const int two = constant("2"), three = constant("3");
  SideEffect append{Write::ListAppend, source("l")};
  append.parts = {two, three};
  write(append);
  EXPECT_TRUE(py.holds("l == [1, 2, 3]"));
  SideEffect assign{Write::ListAssign, append.target};
  assign.parts = {three};
  write(assign);
  EXPECT_TRUE(py.holds("l == [3]"));
  SideEffect members{Write::SetAssign, source("s")};
  members.parts = {two, three};
  write(members);
  EXPECT_TRUE(py.holds("s == {2, 3}"));
}

TEST_F(Rebuild, ReplaysCellsAttributesSlotsAndCalls) {
  py.run(
      "def outer():\n  n = 1\n  return lambda: n\n"
      "get = outer(); cell = get.__closure__[0]\n"
      "class C:\n  __slots__ = ('s',)\n"
      "class D: pass\n"
      "c = C(); slot = C.s; d = D(); attributes = d.__dict__; calls = []\n"
      "def record(*args, **kwargs): calls.append((args, kwargs))\n");
  const int two = constant("2");
  write({Write::Cell, source("cell"), -1, two});
  EXPECT_TRUE(py.holds("get() == 2"));
  const auto* member = reinterpret_cast<PyMemberDescrObject*>(py.get("slot"))->d_member;
  write({Write::Member, source("c"), -1, two, static_cast<int>(member->offset)});
  EXPECT_TRUE(py.holds("c.s == 2"));
  write({Write::Member, source("c"), -1, add(Make::Null), static_cast<int>(member->offset)});
  EXPECT_TRUE(py.holds("not hasattr(c, 's')"));
  write({Write::DictSet, source("attributes"), constant("'a'"), two});
  EXPECT_TRUE(py.holds("d.a == 2"));
  write({Write::Call, source("record"), constant("{'k': 1}"), constant("(5,)")});
  EXPECT_TRUE(py.holds("calls == [((5,), {'k': 1})]"));
}

}  // namespace
}  // namespace vesta::capture::testing
