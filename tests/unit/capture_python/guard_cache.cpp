// The guard cache: a check that held is repeated by comparing words, and any change of what it read undoes that.
#include "capture/python/guards/guard_cache.h"

#include "capture/python/guards/guard_program.h"
#include "python.h"

namespace vesta::capture::testing {
namespace {

// def f(model): model.child.n, model.items[0] and model.child.table['k'] are read.
class Cache : public ::testing::Test {
 protected:
  Cache() {
    py.run(
        "class Model: pass\n"
        "def f(model): pass\n"
        "def make():\n"
        "  m = Model(); m.child = Model(); m.child.n = 1; m.items = [2, 3]; m.child.table = {'k': 4}\n"
        "  return m\n"
        "model = make()\n");
    const auto name = [&](const char* text) { return sources.keep(py.eval(text).get()); };
    auto* cls = py.get("Model");
    const int model = add(SourceKind::Local, -1, 0);
    const int attributes = add(SourceKind::InstanceDict, model);
    const int child = add(SourceKind::DictValue, attributes, 0, name("'child'"));
    const int child_attributes = add(SourceKind::InstanceDict, child);
    const int n = add(SourceKind::DictValue, child_attributes, 0, name("'n'"));
    const int items = add(SourceKind::DictValue, attributes, 0, name("'items'"));
    const int item = add(SourceKind::SequenceItem, items, 0);
    const int table = add(SourceKind::DictValue, child_attributes, 0, name("'table'"));
    const int value = add(SourceKind::DictValue, table, 0, name("'k'"));
    guards = {{Check::Type, model, cls},
              {Check::Type, child, cls},
              {Check::Equals, n, name("1")},
              {Check::Type, items, reinterpret_cast<PyObject*>(&PyList_Type)},
              {Check::Length, items, nullptr, 2},
              {Check::Is, item, name("2")},
              {Check::Type, table, reinterpret_cast<PyObject*>(&PyDict_Type)},
              {Check::Equals, value, name("4")}};
  }
  int add(SourceKind kind, int parent, int index = 0, PyObject* key = nullptr) {
    return sources.add(kind, parent, index, key);
  }
  GuardProgram program() { return GuardProgram(sources.places(), guards, {}, {}, {}, {}); }

  Python py;
  SourceTable sources;
  std::vector<Guard> guards;
};

// A cache, and the guards that it repeats, of frames of f(model).
struct Remembering {
  Python& py;
  const SourceTable& sources;
  const std::vector<Guard>& guards;
  GuardCache cache{CachePlan(sources.all(), guards, {}, std::vector<bool>(static_cast<size_t>(sources.size()), true))};
  GuardProgram program{sources.places(), guards, {}, {}, {}, {}};
  Registers r{};

  void remember() {
    py.in_frame("f(model)", [&](Frame* f) {
      const std::vector<bool> all(static_cast<size_t>(sources.size()));
      ASSERT_EQ(program.check_without(all, roots_of(f), r), GuardProgram::kHolds);
      cache.remember(sources.all(), guards, r);
    });
  }
  bool repeats(const std::string& call = "f(model)") {
    bool repeats = false;
    py.in_frame(call, [&](Frame* f) { repeats = cache.begins_alike(f) && cache.repeats(sources.all(), r); });
    return repeats;
  }
};

// Remembers a check of the frame of f(model), then asks the cache about a later frame, after `change`.
bool repeats_after(Python& py, const SourceTable& sources, const std::vector<Guard>& guards, const std::string& change,
                   const std::string& call = "f(model)") {
  Remembering m{py, sources, guards};
  EXPECT_TRUE(m.cache.useful());
  m.remember();
  py.run(change);
  return m.repeats(call);
}

TEST_F(Cache, RepeatsWhereNothingChanged) {
  EXPECT_TRUE(repeats_after(py, sources, guards, "pass"));
  EXPECT_TRUE(repeats_after(py, sources, guards, "unrelated = make()"));
}

TEST_F(Cache, SeesAnotherRoot) { EXPECT_FALSE(repeats_after(py, sources, guards, "other = make()", "f(other)")); }
TEST_F(Cache, SeesAWrittenAttribute) { EXPECT_FALSE(repeats_after(py, sources, guards, "model.child.n = 5")); }
TEST_F(Cache, SeesAReplacedObject) { EXPECT_FALSE(repeats_after(py, sources, guards, "model.child = make().child")); }
TEST_F(Cache, SeesAnAddedAttribute) { EXPECT_FALSE(repeats_after(py, sources, guards, "model.child.extra = 1")); }
TEST_F(Cache, SeesAWrittenItemOfAList) { EXPECT_FALSE(repeats_after(py, sources, guards, "model.items[0] = 9")); }
TEST_F(Cache, SeesALongerList) { EXPECT_FALSE(repeats_after(py, sources, guards, "model.items.append(1)")); }
TEST_F(Cache, SeesAWriteToADict) { EXPECT_FALSE(repeats_after(py, sources, guards, "model.child.table['k'] = 9")); }
TEST_F(Cache, SeesAReplacedDict) {
  EXPECT_FALSE(repeats_after(py, sources, guards, "model.__dict__ = make().__dict__"));
}
TEST_F(Cache, SeesAnotherClass) {
  EXPECT_FALSE(repeats_after(py, sources, guards, "class Other(Model): pass\nmodel.__class__ = Other"));
}

// From the second write on, the values of a dict are looked up.
TEST_F(Cache, LooksUpTheValuesOfADictThatIsWrittenBetweenCalls) {
  Remembering m{py, sources, guards};
  const auto write = [&] { py.run("model.child.calls = getattr(model.child, 'calls', 0) + 1"); };
  m.remember();
  for (int i = 0; i < 2; ++i) {
    write();
    EXPECT_FALSE(m.repeats()) << i;
    m.remember();
  }
  for (int i = 0; i < 3; ++i) {
    write();
    EXPECT_TRUE(m.repeats()) << i;
  }
  py.run("model.child.table = {'k': 4}");
  EXPECT_FALSE(m.repeats());
  m.remember();
  EXPECT_TRUE(m.repeats());
  py.run("model.child.table['k'] = 9");
  EXPECT_FALSE(m.repeats());
  py.run("model.child.table['k'] = 4");
  m.remember();
  py.run("del model.child.n");
  EXPECT_FALSE(m.repeats());
  py.run("model.child.n = 1");
  m.remember();
  // The number itself is compared at each call, because another one may have its address.
  const auto& checked = m.cache.changing_guards();
  EXPECT_NE(std::find(checked.begin(), checked.end(), 2), checked.end());
}

// Enough dicts that they are watched where Python has watchers.
TEST_F(Cache, SeesAWriteToOneOfManyDicts) {
  py.run("model.tables = [{'k': i} for i in range(100)]");
  const int tables = add(SourceKind::DictValue, 1, 0, sources.keep(py.eval("'tables'").get()));
  PyObject* const key = sources.keep(py.eval("'k'").get());
  guards.push_back({Check::Type, tables, reinterpret_cast<PyObject*>(&PyList_Type)});
  for (int i = 0; i < 100; ++i) {
    const int table = add(SourceKind::SequenceItem, tables, i);
    guards.push_back({Check::Type, table, reinterpret_cast<PyObject*>(&PyDict_Type)});
    const int value = add(SourceKind::DictValue, table, 0, key);
    guards.push_back({Check::Equals, value, sources.keep(PyLong_FromLong(i))});
  }
  EXPECT_TRUE(repeats_after(py, sources, guards, "pass"));
  EXPECT_FALSE(repeats_after(py, sources, guards, "model.tables[70]['k'] = 5"));
  py.run("model.tables[70]['k'] = 70");
  EXPECT_FALSE(repeats_after(py, sources, guards, "model.tables[3] = {'k': 3}"));
  EXPECT_FALSE(repeats_after(py, sources, guards, "model.__dict__ = dict(model.__dict__)"));
  EXPECT_FALSE(repeats_after(py, sources, guards, "model.tables[9].clear()"));
  py.run("model.tables[9]['k'] = 9");

  Remembering m{py, sources, guards};
  m.remember();
  EXPECT_TRUE(m.repeats());
  py.run("model.child.calls = 1");  // no guard reads this attribute
  EXPECT_FALSE(m.repeats());
  m.remember();
  py.run("model.child.calls = 2");
  EXPECT_FALSE(m.repeats());
  m.remember();
  for (int i = 0; i < 3; ++i) {
    py.run("model.child.calls = " + std::to_string(i));
    EXPECT_TRUE(m.repeats());
  }
  py.run("model.tables[70]['k'] = 5");
  EXPECT_FALSE(m.repeats());
}

// Two caches watch the same dicts; one of them ends, and dicts die while they are watched.
TEST_F(Cache, WatchedDictsMayDie) {
  py.run("model.tables = {i: {'k': i} for i in range(100)}");
  const int tables = add(SourceKind::DictValue, 1, 0, sources.keep(py.eval("'tables'").get()));
  PyObject* const key = sources.keep(py.eval("'k'").get());
  for (int i = 0; i < 100; ++i) {
    const int table = add(SourceKind::DictValue, tables, 0, sources.keep(PyLong_FromLong(i)));
    guards.push_back({Check::Equals, add(SourceKind::DictValue, table, 0, key), sources.keep(PyLong_FromLong(i))});
  }
  guards.push_back({Check::Type, tables, reinterpret_cast<PyObject*>(&PyDict_Type)});
  Remembering kept{py, sources, guards};
  kept.remember();
  {
    Remembering other{py, sources, guards};
    other.remember();
    EXPECT_TRUE(other.repeats());
    EXPECT_TRUE(kept.repeats());
  }
  EXPECT_TRUE(kept.repeats());
  py.run("model.tables = {i: {'k': i} for i in range(100)}");
  EXPECT_FALSE(kept.repeats());
  kept.remember();
  EXPECT_TRUE(kept.repeats());
  py.run("model.tables[50]['k'] = 0");
  EXPECT_FALSE(kept.repeats());
}

TEST_F(Cache, AProgramFindsTheGuardThatFailsAfterAHit) {
  const GuardProgram p = program();
  Registers r;
  const auto check = [&] {
    int outcome = -5;
    py.in_frame("f(model)", [&](Frame* f) { outcome = p.check(f, r); });
    return outcome;
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(check(), GuardProgram::kHolds);
  py.run("model.child.n = 5");
  EXPECT_EQ(check(), 2);
  py.run("model.child.n = 1");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(check(), GuardProgram::kHolds);
  py.run("model.items[0] = 9");
  EXPECT_EQ(check(), 5);
  py.run("model.items[0] = 2; model.child.table['k'] = 9");
  EXPECT_EQ(check(), 7);
}

TEST_F(Cache, GivesUpWhereTheRootsAreOthersEachTime) {
  GuardCache cache(CachePlan(sources.all(), guards, {}, std::vector<bool>(static_cast<size_t>(sources.size()), true)));
  const GuardProgram p = program();
  for (int i = 0; i < 70; ++i) {
    py.run("model = make()");
    py.in_frame("f(model)", [&](Frame* f) {
      Registers r;
      const std::vector<bool> all(static_cast<size_t>(sources.size()));
      ASSERT_EQ(p.check_without(all, roots_of(f), r), GuardProgram::kHolds);
      cache.remember(sources.all(), guards, r);
    });
  }
  EXPECT_FALSE(cache.useful());
}

TEST_F(Cache, IsOfNoUseForFewSources) {
  SourceTable few;
  const int x = few.add(SourceKind::Local, -1, 0);
  const std::vector<Guard> one{{Check::Is, x, Py_None}};
  EXPECT_FALSE(GuardCache(CachePlan(few.all(), one, {}, {true})).useful());
}

}  // namespace
}  // namespace vesta::capture::testing
