// The rooms of a trace, each on the frame of a function that has not begun: what becomes a guard, a constant, a
// symbolic scalar, an entry of the undo log, a graph break.
#include <algorithm>
#include <optional>

#include "capture/python/tracer/symbolic_scalar.h"
#include "capture/python/tracer/trace.h"
#include "python.h"

namespace vesta::capture::testing {
namespace {

class Rooms : public ::testing::Test {
 protected:
  Rooms() { py.run("def f(a, b): return a\n"); }

  // Traces a call of f to its begin, and looks at the trace; everything it wrote is undone afterwards.
  void trace(const std::string& call, const std::function<void(Trace&)>& look, const TraceSettings& settings = {}) {
    bool looked = false;
    py.in_frame(call, [&](Frame* f) {
      Trace t(f, settings);
      EXPECT_TRUE(t.variables.begin());
      look(t);
      t.log.roll_back();
      PyErr_Clear();
      looked = true;
    });
    EXPECT_TRUE(looked);
  }
  // The first argument as the program sees it.
  static Object first(Trace& t) { return Object::take(t.variables.load_fast(t.root, 0)); }
  static size_t count(const Trace& t, Check check) {
    return static_cast<size_t>(
        std::ranges::count_if(t.guards.guards(), [&](const Guard& g) { return g.check == check; }));
  }
  static Object text(const char* s) { return Object::take(PyUnicode_InternFromString(s)); }
  static Object number(long n) { return Object::take(PyLong_FromLong(n)); }

  Python py;
};

// ---- guards

TEST_F(Rooms, AFactIsOneGuard) {
  trace("f([1, 2], 0)", [](Trace& t) {
    const Object list = first(t);
    EXPECT_TRUE(t.containers.track_length(list.get()));
    EXPECT_TRUE(t.containers.track_length(list.get()));
    EXPECT_EQ(count(t, Check::Length), 1U);
    EXPECT_EQ(count(t, Check::Type), 1U);
    EXPECT_EQ(t.guards.source_text(t.sources.find(list.get())), "a");
  });
}

TEST_F(Rooms, IdentityIsGuardedForObjectsWithASourceAlone) {
  trace("f([], 0)", [](Trace& t) {
    const Object old = first(t), made = Object::take(PyList_New(0));
    t.guards.add_identity(made.get());
    t.guards.add_identity(t.tracker.constant_source(made.get()) >= 0 ? made.get() : nullptr);
    EXPECT_EQ(count(t, Check::Is), 0U);
    t.guards.add_identity(old.get());
    EXPECT_EQ(count(t, Check::Is), 1U);
  });
}

TEST_F(Rooms, ClassesOfPythonAreGuardedAndThoseOfCAreNot) {
  py.run("class C:\n  def m(self): pass\n");
  trace("f(C(), 0)", [&](Trace& t) {
    const Object x = first(t), m = text("m");
    t.guards.add_class(&PyList_Type, m.get());
    EXPECT_EQ(count(t, Check::Class), 0U);
    t.guards.add_class(Py_TYPE(x.get()), m.get());
    t.guards.add_class(Py_TYPE(x.get()), m.get());
    EXPECT_EQ(count(t, Check::Class), 1U);
    ASSERT_EQ(t.guards.lookups().size(), 1U);
    EXPECT_EQ(t.guards.lookups()[0].found, py.eval("C.m").get());
  });
}

TEST_F(Rooms, TheAddressOfANewObjectEndsTheTrace) {
  trace("f([], 0)", [](Trace& t) {
    const Object old = first(t), made = Object::take(PyList_New(0));
    EXPECT_TRUE(t.guards.add_address(old.get()));
    EXPECT_FALSE(t.ended());
    EXPECT_FALSE(t.guards.add_address(made.get()));
    EXPECT_EQ(t.progress.site().reason.id, Break::AddressOfNewObject);
  });
}

// ---- progress

TEST_F(Rooms, TheFirstReasonStays) {
  trace("f(1, 2)", [](Trace& t) {
    EXPECT_TRUE(t.progress.begin_instruction(t.root, 0));
    EXPECT_EQ(t.graph_break(Break::TensorText), nullptr);
    EXPECT_TRUE(PyErr_Occurred());
    EXPECT_EQ(t.fail(Break::LongTrace), -1);
    EXPECT_TRUE(t.ended());
    EXPECT_EQ(t.progress.site().reason.id, Break::TensorText);
    EXPECT_EQ(t.progress.site().where.function, "f");
    // Nothing is recorded after it.
    EXPECT_EQ(t.items.length(Py_None), -1);
  });
}

TEST_F(Rooms, ATraceStopsBeforeTheInstructionThatIsNamed) {
  TraceSettings settings;
  settings.stop_at = 1;
  trace(
      "f(1, 2)",
      [](Trace& t) {
        EXPECT_TRUE(t.progress.begin_instruction(t.root, 0));
        EXPECT_FALSE(t.progress.begin_instruction(t.root, 1));
        EXPECT_EQ(t.progress.root_count(), 1);
        EXPECT_FALSE(t.ended());
      },
      settings);
}

// ---- numbers

TEST_F(Rooms, ANumberIsAConstantUntilItChanges) {
  ValueHistory history;
  TraceSettings settings;
  settings.history = &history;
  const auto is_symbolic = [&](const std::string& call) {
    bool symbolic = false;
    trace(
        call,
        [&](Trace& t) {
          const Object x = first(t);
          symbolic = is_symbolic_scalar(x.get());
          EXPECT_EQ(count(t, Check::Equals), symbolic ? 0U : 1U);
          EXPECT_EQ(count(t, Check::Type), symbolic ? 1U : 0U);
        },
        settings);
    return symbolic;
  };
  EXPECT_FALSE(is_symbolic("f(0.5, 0)"));
  EXPECT_FALSE(is_symbolic("f(0.5, 0)"));
  EXPECT_TRUE(is_symbolic("f(1.5, 0)"));
  // What the program has needed the value of is a constant, for a few values.
  history.scalars.begin()->second.specialized = true;
  EXPECT_FALSE(is_symbolic("f(2.5, 0)"));
  settings.dynamic = false;
  EXPECT_FALSE(is_symbolic("f(3.5, 0)"));
}

TEST_F(Rooms, ArithmeticOnSymbolicScalarsIsComputedInEachCall) {
  ValueHistory history;
  TraceSettings settings;
  settings.history = &history;
  trace("f(0.5, 0)", [](Trace& t) { first(t); }, settings);
  trace(
      "f(1.5, 0)",
      [&](Trace& t) {
        const Object x = first(t), two = number(2);
        ASSERT_TRUE(is_symbolic_scalar(x.get()));
        const Object sum = Object::take(t.operators.binary(0, x.get(), two.get()));  // NB_ADD
        ASSERT_TRUE(sum && is_symbolic_scalar(sum.get()));
        EXPECT_EQ(PyFloat_AsDouble(scalar_value(sum.get())), 3.5);
        EXPECT_EQ(t.sources[scalar_source(sum.get())].kind, SourceKind::Computed);
        // A comparison is a guard of its outcome.
        const Object less = Object::take(t.operators.compare(Py_LT, sum.get(), two.get()));
        EXPECT_EQ(less.get(), Py_False);
        EXPECT_EQ(count(t, Check::Is), 1U);
        EXPECT_EQ(t.numbers.plain(sum.get()), nullptr);
        EXPECT_EQ(t.progress.site().reason.id, Break::ChangingNumber);
        EXPECT_TRUE(t.progress.site().wants_value);
      },
      settings);
  EXPECT_TRUE(history.scalars.begin()->second.specialized);
}

TEST_F(Rooms, AnIntWhereATensorWasIsSymbolicAtOnce) {
  ValueHistory history;
  history.shapes["a"].add({2, 3});
  TraceSettings settings;
  settings.history = &history;
  settings.symbols = false;  // a symbol needs a graph
  trace("f(7, 0)", [](Trace& t) { first(t); }, settings);
  EXPECT_EQ(history.shapes["a"].changed, std::vector<bool>{true});
  trace("f(8, 0)", [](Trace& t) { Object::take(t.variables.load_fast(t.root, 1)); }, settings);
  EXPECT_EQ(history.shapes["b"].changed, std::vector<bool>{false});
}

TEST(ShapeHistory, RemembersWhatChanged) {
  ShapeHistory h;
  EXPECT_EQ(h.add({2, 3}), (std::vector<bool>{false, false}));
  EXPECT_EQ(h.add({2, 4}), (std::vector<bool>{false, true}));
  EXPECT_EQ(h.add({2, 4}), (std::vector<bool>{false, true}));
  EXPECT_EQ(h.add({2, 4, 1}), (std::vector<bool>{false, false, false}));
}

// ---- containers

TEST_F(Rooms, AReadOfADictGuardsTheKeyAlone) {
  trace("f({'x': 1, 'y': 2}, 0)", [](Trace& t) {
    const Object dict = first(t), x = text("x"), z = text("z");
    const auto value = t.containers.read_dict(dict.get(), t.sources.find(dict.get()), x.get());
    EXPECT_TRUE(value && Object::take(*value));
    EXPECT_FALSE(t.containers.read_dict(dict.get(), t.sources.find(dict.get()), z.get()));
    EXPECT_EQ(count(t, Check::Keys), 0U);
    EXPECT_EQ(count(t, Check::Equals), 1U);  // of the value under "x"
    EXPECT_EQ(count(t, Check::Absent), 1U);
  });
}

TEST_F(Rooms, AWriteOfAKeyIsLoggedAndUndone) {
  py.run("d = {'x': 1}");
  trace("f(d, 0)", [&](Trace& t) {
    const Object dict = first(t), x = text("x"), five = number(5);
    EXPECT_EQ(t.items.set(dict.get(), x.get(), five.get()), 0);
    EXPECT_TRUE(py.holds("d == {'x': 5}"));
    // What the trace itself has written is read without a guard.
    const size_t guards = t.guards.guards().size();
    const Object value = Object::take(t.items.get(dict.get(), x.get()));
    EXPECT_EQ(value.get(), five.get());
    EXPECT_EQ(t.guards.guards().size(), guards);
    ASSERT_EQ(t.log.entries().size(), 1U);
    EXPECT_TRUE(t.log.entries()[0].wrote(x.get()));
  });
  EXPECT_TRUE(py.holds("d == {'x': 1}"));
}

TEST_F(Rooms, AnAppendReadsNothingOfAList) {
  py.run("l = [1, 2]");
  trace("f(l, 0)", [&](Trace& t) {
    const Object list = first(t), three = number(3);
    EXPECT_TRUE(t.containers.before_write(list.get(), UndoLog::Writes::Append));
    EXPECT_EQ(count(t, Check::Length), 0U);
    EXPECT_EQ(PyList_Append(list.get(), three.get()), 0);
    EXPECT_TRUE(t.containers.before_write(list.get(), UndoLog::Writes::Any));
    EXPECT_EQ(count(t, Check::Length), 1U);
    EXPECT_EQ(count(t, Check::Equals), 2U);  // of the items
  });
  EXPECT_TRUE(py.holds("l == [1, 2]"));
}

TEST_F(Rooms, AContainerOfTheTraceIsReadAsItIsNow) {
  trace("f([1, 2], 0)", [](Trace& t) {
    const Object old = first(t), made = Object::take(PyList_New(0));
    // The undo log has the new list as it was before its first write: empty.
    EXPECT_TRUE(t.containers.before_write(made.get(), UndoLog::Writes::Any));
    EXPECT_EQ(PyList_Append(made.get(), old.get()), 0);
    EXPECT_TRUE(t.containers.track_contents(made.get(), 2));
    EXPECT_EQ(count(t, Check::Length), 1U);
    EXPECT_EQ(count(t, Check::Equals), 2U);
  });
}

TEST_F(Rooms, ADequeOfTheProgramIsAGraphBreak) {
  trace("f(collections.deque([1]), 0)", [](Trace& t) {
    const Object deque = first(t);
    EXPECT_FALSE(t.containers.track_contents(deque.get(), 1));
    EXPECT_EQ(t.progress.site().reason.id, Break::DequeRead);
  });
  trace("f(collections.deque([1]), 0)", [](Trace& t) {
    const Object deque = first(t);
    EXPECT_FALSE(t.containers.before_write(deque.get(), UndoLog::Writes::Any));
    EXPECT_EQ(t.progress.site().reason.id, Break::ObjectChanged);
  });
}

TEST_F(Rooms, ADefaultDictMakesWhatItLacks) {
  py.run("d = collections.defaultdict(list)");
  trace("f(d, 0)", [&](Trace& t) {
    const Object dict = first(t), x = text("x");
    const Object made = Object::take(t.items.get(dict.get(), x.get()));
    ASSERT_TRUE(made && PyList_Check(made.get()));
    EXPECT_TRUE(py.holds("list(d) == ['x']"));
    EXPECT_EQ(count(t, Check::Absent), 1U);
  });
  EXPECT_TRUE(py.holds("len(d) == 0"));
}

TEST_F(Rooms, UnpackingKnowsEachItem) {
  trace("f((1, 2, 3), 0)", [](Trace& t) {
    const Object tuple = first(t);
    PyObject* out[3] = {};
    ASSERT_EQ(t.items.unpack(tuple.get(), 1, 1, out), 0);
    EXPECT_EQ(PyLong_AsLong(out[0]), 1);
    EXPECT_EQ(PyList_GET_SIZE(out[1]), 1);
    EXPECT_EQ(PyLong_AsLong(out[2]), 3);
    for (PyObject* x : out) Py_XDECREF(x);
    EXPECT_EQ(t.items.unpack(tuple.get(), 2, -1, out), -1);
    EXPECT_TRUE(PyErr_ExceptionMatches(PyExc_ValueError));
  });
}

// ---- objects

TEST_F(Rooms, AttributesAreGuardedWhereTheyAreFound) {
  py.run("class C:\n  kind = 'k'\n  def __init__(self): self.x = 1\nc = C()\n");
  trace("f(c, 0)", [](Trace& t) {
    const Object c = first(t), kind = text("kind"), x = text("x"), y = text("y");
    const Object value = Object::take(t.objects.get_attr(c.get(), x.get()));
    EXPECT_EQ(PyLong_AsLong(value.get()), 1);
    EXPECT_EQ(count(t, Check::Equals), 1U);
    const Object of_class = Object::take(t.objects.get_attr(c.get(), kind.get()));
    EXPECT_STREQ(PyUnicode_AsUTF8(of_class.get()), "k");
    EXPECT_EQ(count(t, Check::Absent), 1U);  // the instance has no attribute of that name
    EXPECT_EQ(t.objects.get_attr(c.get(), y.get()), nullptr);
    EXPECT_TRUE(PyErr_ExceptionMatches(PyExc_AttributeError));
    EXPECT_FALSE(t.ended());
  });
}

TEST_F(Rooms, WritesToAttributesAreUndone) {
  py.run("class S:\n  __slots__ = ('x',)\ns = S()\ns.x = 1\nclass C: pass\nc = C()\n");
  trace("f(s, c)", [&](Trace& t) {
    const Object s = first(t), c = Object::take(t.variables.load_fast(t.root, 1)), x = text("x"), five = number(5);
    EXPECT_EQ(t.objects.set_attr(s.get(), x.get(), five.get()), 0);
    EXPECT_EQ(t.objects.set_attr(c.get(), x.get(), five.get()), 0);
    EXPECT_TRUE(py.holds("s.x == 5 and c.x == 5"));
    EXPECT_EQ(t.objects.set_attr(reinterpret_cast<PyObject*>(Py_TYPE(c.get())), x.get(), five.get()), -1);
    EXPECT_EQ(t.progress.site().reason.id, Break::ClassAttributeSet);
  });
  EXPECT_TRUE(py.holds("s.x == 1 and not hasattr(c, 'x')"));
}

// ---- equality

TEST_F(Rooms, AKeyIsGuardedByWhatItIsComparedBy) {
  py.run("class C: pass\nc = C()\n");
  trace("f((1, c), 0)", [&](Trace& t) {
    const Object key = first(t);
    EXPECT_TRUE(t.equality.guard_key(key.get()));
    EXPECT_EQ(count(t, Check::Equals), 1U);  // the number
    EXPECT_EQ(count(t, Check::Is), 1U);      // the object, which compares by identity
  });
  trace("f(0, 0)", [&](Trace& t) {
    const Object made = py.eval("C()");
    EXPECT_FALSE(t.equality.is_source_key(made.get()));
    EXPECT_TRUE(t.equality.is_source_key(number(3).get()));
  });
}

// ---- variables

TEST_F(Rooms, AVariableThatIsNotReadHasNoGuard) {
  trace("f([1], [2])", [](Trace& t) {
    EXPECT_TRUE(t.guards.guards().empty());
    first(t);
    EXPECT_EQ(t.guards.guards().size(), 1U);
    EXPECT_TRUE(t.variables.is_entry_value(1));
    t.variables.storing(t.root, 1);
    EXPECT_FALSE(t.variables.is_entry_value(1));
  });
}

TEST_F(Rooms, TwoVariablesWithOneObjectAreGuardedAsSuch) {
  py.run("l = [1]");
  trace("f(l, l)", [](Trace& t) {
    const Object a = first(t), b = Object::take(t.variables.load_fast(t.root, 1));
    EXPECT_EQ(a.get(), b.get());
    EXPECT_EQ(count(t, Check::Same), 1U);
    EXPECT_EQ(t.operators.is_same(a.get(), b.get()), 1);
  });
  trace("f([1], [1])", [](Trace& t) {
    const Object a = first(t), b = Object::take(t.variables.load_fast(t.root, 1));
    EXPECT_EQ(t.operators.is_same(a.get(), b.get()), 0);
    EXPECT_EQ(count(t, Check::Different), 1U);
  });
}

TEST_F(Rooms, AGlobalIsADictsItem) {
  py.run("g = 7");
  trace("f(0, 0)", [](Trace& t) {
    const Object name = text("g"), missing = text("no_such_name");
    const Object x = Object::take(t.variables.load_global(t.root, name.get()));
    EXPECT_EQ(PyLong_AsLong(x.get()), 7);
    EXPECT_EQ(count(t, Check::Equals), 1U);
    EXPECT_EQ(t.variables.load_global(t.root, missing.get()), nullptr);
    EXPECT_TRUE(PyErr_ExceptionMatches(PyExc_NameError));
    EXPECT_EQ(count(t, Check::Absent), 2U);  // in the globals and in the builtins
  });
}

// ---- made objects

TEST_F(Rooms, ResultsKnowTheInstructionThatMadeThem) {
  trace("f(0, 0)", [](Trace& t) {
    EXPECT_TRUE(t.progress.begin_instruction(t.root, 0));
    EXPECT_TRUE(t.progress.begin_instruction(t.root, 1));
    const Object list = Object::take(t.tracker.finish_call(PyList_New(0)));
    EXPECT_EQ(t.made.born_at(list.get()), 1);
    EXPECT_EQ(t.made.born_at(Py_None), -1);
    t.made.add(list.get());
    EXPECT_TRUE(t.made.contains(list.get()));
  });
}

}  // namespace
}  // namespace vesta::capture::testing
