// Guard programs: each kind of check holds, fails, and says what failed.
#include "capture/python/guards/guard_program.h"

#include "capture/python/guards/guard_text.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/values/classes.h"
#include "python.h"

namespace vesta::capture::testing {
namespace {

// Guards on two variables, x and y, of a function.
class Guards : public ::testing::Test {
 protected:
  Guards() {
    py.run("def f(x, y): pass\ncode = f.__code__");
    x = sources.add(SourceKind::Local, -1, 0);
    y = sources.add(SourceKind::Local, -1, 1);
  }
  GuardProgram program(std::vector<Guard> guards, std::vector<ClassLookup> lookups = {}, std::vector<int> written = {},
                       std::vector<int> objects = {}) {
    GuardProgram p(sources.places(), std::move(guards), std::move(lookups), {x, y}, std::move(written),
                   std::move(objects));
    p.code = reinterpret_cast<PyCodeObject*>(py.get("code"));
    return p;
  }
  // What check_without() says where the variables have these values.
  int check(const GuardProgram& p, Object x_value, Object y_value = Object()) {
    values[0] = std::move(x_value);
    values[1] = std::move(y_value);
    PyObject* slots[] = {values[0].get(), values[1].get()};
    const int outcome = p.check_without(std::vector<bool>(static_cast<size_t>(p.sources().size())),
                                        {slots, nullptr, nullptr, nullptr}, registers);
    EXPECT_FALSE(PyErr_Occurred());
    return outcome;
  }
  // The guard holds for one value and fails for the other, and is said so.
  CaptureDifference differs(const Guard& g, const std::string& right, const std::string& wrong,
                            const std::string& text) {
    const GuardProgram p = program({g});
    EXPECT_EQ(check(p, py.eval(right)), GuardProgram::kHolds) << right;
    EXPECT_EQ(check(p, py.eval(wrong)), 0) << wrong;
    EXPECT_EQ(guard_text(p, p.guards()[0]), text);
    return difference(p, 0, registers);
  }

  Python py;
  SourceTable sources;
  Registers registers;
  Object values[2];  // the registers borrow them
  int x, y;
};

TEST_F(Guards, Type) {
  const CaptureDifference d =
      differs({Check::Type, x, reinterpret_cast<PyObject*>(&PyLong_Type)}, "3", "True", "type(x) is int");
  EXPECT_EQ(d.was, "int");
  EXPECT_EQ(d.now, "bool");
}

TEST_F(Guards, Is) {
  const CaptureDifference d = differs({Check::Is, x, Py_None}, "None", "0", "x is None");
  EXPECT_EQ(d.was, "None");
  EXPECT_EQ(d.now, "0");
}

TEST_F(Guards, Equals) {
  const Object seven = py.eval("7"), zero = py.eval("0.0"), text = py.eval("'relu'");
  const CaptureDifference d = differs({Check::Equals, x, seven.get()}, "7", "8", "x == 7");
  EXPECT_EQ(d.was, "7");
  EXPECT_EQ(d.now, "8");
  differs({Check::Equals, x, zero.get()}, "0.0", "-0.0", "x == 0.0");
  differs({Check::Equals, x, zero.get()}, "0.0", "0", "x == 0.0");
  differs({Check::Equals, x, text.get()}, "'re' + 'lu'", "'gelu'", "x == 'relu'");
  const Object nan = py.eval("float('nan')");
  EXPECT_EQ(check(program({{Check::Equals, x, nan.get()}}), py.eval("float('nan')")), GuardProgram::kHolds);
}

TEST_F(Guards, SameAndDifferent) {
  const Object a = py.eval("[1]"), b = py.eval("[1]");
  const GuardProgram same = program({{Check::Same, x, nullptr, y}}),
                     other = program({{Check::Different, x, nullptr, y}});
  EXPECT_EQ(check(same, a, a), GuardProgram::kHolds);
  EXPECT_EQ(check(same, a, b), 0);
  EXPECT_EQ(check(other, a, b), GuardProgram::kHolds);
  EXPECT_EQ(check(other, a, a), 0);
  EXPECT_EQ(guard_text(same, same.guards()[0]), "x is y");
  EXPECT_EQ(guard_text(other, other.guards()[0]), "x is not y");
}

TEST_F(Guards, PresentAndAbsent) {
  const Object key = py.eval("'k'");
  const int item = sources.add(SourceKind::DictValue, x, 0, key.get());
  differs({Check::Present, item}, "{'k': 1}", "{}", "x['k'] exists");
  differs({Check::Absent, item}, "{}", "{'k': 1}", "x['k'] does not exist");
}

TEST_F(Guards, Length) {
  const CaptureDifference d = differs({Check::Length, x, nullptr, 2}, "[1, 2]", "[1, 2, 3]", "len(x) == 2");
  EXPECT_EQ(d.was, "2");
  EXPECT_EQ(d.now, "3");
  differs({Check::Length, x, nullptr, 2}, "{'a': 1, 'b': 2}", "{'a': 1}", "len(x) == 2");
  differs({Check::Length, x, nullptr, 2}, "(1, 2)", "()", "len(x) == 2");
  differs({Check::Length, x, nullptr, 2}, "{1, 2}", "7", "len(x) == 2");
}

TEST_F(Guards, Keys) {
  const Object keys = py.eval("('a', 'b')");
  const Guard g{Check::Keys, x, keys.get()};
  differs(g, "{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}", "the keys of x and their order");
  differs(g, "{'a': 1, 'b': 2}", "{'a': 1, 'c': 2}", "the keys of x and their order");
  differs(g, "{'a': 1, 'b': 2}", "{'a': 1}", "the keys of x and their order");
  py.run("moved = collections.OrderedDict(a=1, b=2); moved.move_to_end('a')");
  differs(g, "collections.OrderedDict(a=1, b=2)", "moved", "the keys of x and their order");
}

TEST_F(Guards, Members) {
  const Object members = py.eval("frozenset((1, 'a', int))");
  const Guard g{Check::Members, x, members.get()};
  differs(g, "{'a', int, 1}", "{'a', int, 2}", "the items of x");
  py.run("class K:\n  def __hash__(self): raise SystemError\n");
  py.run("class L:\n  def __hash__(self): return hash(1)\n  def __eq__(self, other): return True\n");
  differs(g, "{1, 'a', int}", "{L(), 'a', int}", "the items of x");  // its comparison would be Python code
}

TEST_F(Guards, ClassByItsLookups) {
  py.run("class C:\n  def m(self): pass\n");
  const Object name = py.eval("'m'"), other = py.eval("'other'");
  auto* cls = reinterpret_cast<PyTypeObject*>(py.get("C"));
  const Object found = py.eval("C.__dict__['m']");
  const GuardProgram p = program({{Check::Class, -1, py.get("C")}}, {{cls, name.get(), found.get()}});
  const Object none = Object::share(Py_None);
  EXPECT_EQ(check(p, none), GuardProgram::kHolds);
  py.run("C.unrelated = 1");
  EXPECT_EQ(check(p, none), GuardProgram::kHolds);
  py.run("C.m = lambda self: 2");
  EXPECT_EQ(check(p, none), 0);
  EXPECT_EQ(guard_text(p, p.guards()[0]), "class C is unchanged");
}

TEST_F(Guards, ClassByAnyChange) {
  py.run("class C: pass\n");
  const GuardProgram p =
      program({{Check::Class, -1, py.get("C")}}, {{reinterpret_cast<PyTypeObject*>(py.get("C")), nullptr, nullptr}});
  const Object none = Object::share(Py_None);
  EXPECT_EQ(check(p, none), GuardProgram::kHolds);
  py.run("C.unrelated = 1");
  EXPECT_EQ(check(p, none), 0);
}

TEST_F(Guards, Code) {
  py.run("def g(): return 1\ndef h(): return 2\nkept = g.__code__");
  const Object code = py.eval("g.__code__"), globals = py.eval("g.__globals__");
  const GuardProgram p =
      program({{Check::Code, x, code.get(), static_cast<int64_t>(reinterpret_cast<intptr_t>(globals.get()))}});
  EXPECT_EQ(check(p, py.eval("g")), GuardProgram::kHolds);
  EXPECT_EQ(check(p, py.eval("h")), 0);
  py.run("g.__code__ = h.__code__");
  EXPECT_EQ(check(p, py.eval("g")), 0);
  EXPECT_EQ(guard_text(p, p.guards()[0]), "the code of x");
}

TEST_F(Guards, Tensor) {
  const Object plain = py.eval("torch.ones(2)");
  const Guard g{Check::Tensor, x, nullptr, tensor_flags(plain.get())};
  differs(g, "torch.ones(3)", "torch.ones(3, requires_grad=True)", "requires_grad, is_leaf and inference mode of x");
  differs(g, "torch.ones(3)", "3", "requires_grad, is_leaf and inference mode of x");
}

TEST_F(Guards, Bare) {
  py.run("marked = torch.ones(2); marked.note = 1");
  differs({Check::Bare, x}, "torch.ones(2)", "marked", "x has no attributes of its own");
}

TEST_F(Guards, TheFirstThatFailsIsNamed) {
  const Object one = py.eval("1");
  const GuardProgram p = program({{Check::Equals, x, one.get()}, {Check::Equals, y, one.get()}});
  EXPECT_EQ(check(p, one, one), GuardProgram::kHolds);
  EXPECT_EQ(check(p, one, py.eval("2")), 1);
  EXPECT_EQ(check(p, py.eval("3"), py.eval("2")), 0);
  EXPECT_EQ(difference(p, 0, registers).now, "3");
}

TEST_F(Guards, SourcesThatAreLeftOutAreNotRead) {
  const Object one = py.eval("1"), two = py.eval("2");
  const GuardProgram p = program({{Check::Equals, x, one.get()}, {Check::Equals, y, one.get()}});
  PyObject* slots[] = {two.get(), one.get()};
  EXPECT_EQ(p.check_without({true, false}, {slots, nullptr, nullptr, nullptr}, registers), GuardProgram::kHolds);
  EXPECT_EQ(p.check_without({false, true}, {slots, nullptr, nullptr, nullptr}, registers), 0);
}

TEST_F(Guards, AWrittenObjectIsNoOtherVariablesObject) {
  py.run("a = [1]; b = [2]");
  const GuardProgram p = program({{Check::Present, x}, {Check::Present, y}}, {}, {x}, {x, y});
  int distinct = -5, aliased = -5;
  Registers r;
  py.in_frame("f(a, b)", [&](Frame* f) { distinct = p.check(f, r); });
  py.in_frame("f(a, a)", [&](Frame* f) { aliased = p.check(f, r); });
  EXPECT_EQ(distinct, GuardProgram::kHolds);
  EXPECT_EQ(aliased, GuardProgram::kAliased);
  EXPECT_EQ(difference(p, aliased, r).guard, "two names that were different objects are one object, which is written");
}

TEST_F(Guards, KeepWhatTheyCompareAlive) {
  py.run("class C: pass\nc = C(); dead = []; r = weakref.ref(c, dead.append)");
  {
    const GuardProgram p = program({{Check::Is, x, py.get("c")}});
    py.run("c = None");
    EXPECT_TRUE(py.holds("dead == []"));
  }
  EXPECT_TRUE(py.holds("len(dead) == 1"));
}

}  // namespace
}  // namespace vesta::capture::testing
