#include "capture/python/guards/guard_program.h"

#include <algorithm>

#include "capture/python/guards/guard_cache.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/values/classes.h"
#include "capture/python/values/keys.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture {
namespace {

bool finds_the_same(const std::vector<ClassLookup>& lookups, PyTypeObject* type) {
  for (const ClassLookup& l : lookups)
    if (l.type == type && (!l.name || _PyType_Lookup(type, l.name) != l.found)) return false;
  return true;
}

bool has_keys(PyObject* x, const std::vector<PyObject*>& expected) {
  if (!PyDict_Check(x) || PyDict_GET_SIZE(x) != static_cast<Py_ssize_t>(expected.size())) return false;
  const auto same = [](PyObject* a, PyObject* b) { return a == b || (is_scalar(a) && same_scalar(a, b)); };
  if (expected.empty()) return true;
  if (PyODict_Check(x)) {
    const Object keys = Object::take(keys_of(x));
    if (!keys) return PyErr_Clear(), false;
    return std::ranges::equal(span_of(keys.get()), expected, same);
  }
  Py_ssize_t at = 0;
  PyObject* key = nullptr;
  for (PyObject* wanted : expected)
    if (!PyDict_Next(x, &at, &key, nullptr) || !same(key, wanted)) return false;
  return true;
}

// An object of a written source is the object of another source, too.
bool is_aliased(const Registers& r, const std::vector<int>& written, const std::vector<int>& objects) {
  for (const int w : written)
    for (const int o : objects)
      if (o != w && r[o] && r[o] == r[w]) return true;
  return false;
}

void load(const SourceTable& sources, int source, const Roots& roots, Registers& r) {
  const Source& s = sources[source];
  Object* computed = nullptr;
  if (s.kind == SourceKind::Computed) {
    r.computed.resize(static_cast<size_t>(sources.size()));
    computed = &r.computed[static_cast<size_t>(source)];
  }
  r[source] =
      read_source(s, roots, s.parent >= 0 ? r[s.parent] : nullptr, s.other >= 0 ? r[s.other] : nullptr, computed);
}

}  // namespace

GuardProgram::GuardProgram(SourceTable sources, std::vector<Guard> guards, std::vector<ClassLookup> lookups,
                           std::vector<int> needed, std::vector<int> written, std::vector<int> objects)
    : sources_(std::move(sources)),
      guards_(std::move(guards)),
      lookups_(std::move(lookups)),
      objects_(std::move(objects)),
      versions_(guards_.size(), 0) {
  for (Guard& g : guards_) {
    if (g.check == Check::Keys) {
      g.number = static_cast<int64_t>(keys_.size());
      keys_.emplace_back();
      for (PyObject* key : span_of(g.expected)) {
        keys_.back().push_back(key);
        kept_.push_back(Object::share(key));
      }
      g.expected = nullptr;
    }
    if (g.check == Check::Code) kept_.push_back(Object::share(reinterpret_cast<PyObject*>(g.number)));
    if (g.expected) kept_.push_back(Object::share(g.expected));
    if (g.asked_in) kept_.push_back(Object::share(reinterpret_cast<PyObject*>(g.asked_in)));
  }
  for (const ClassLookup& l : lookups_) {
    kept_.push_back(Object::share(reinterpret_cast<PyObject*>(l.type)));
    kept_.push_back(Object::share(l.name));
    kept_.push_back(Object::share(l.found));
  }
  std::vector<bool> loaded(static_cast<size_t>(sources_.size()), false);
  auto load_step = [&](auto&& self, int source) -> void {
    if (source < 0 || loaded[static_cast<size_t>(source)]) return;
    self(self, sources_[source].parent);
    self(self, sources_[source].other);
    loaded[static_cast<size_t>(source)] = true;
    steps_.push_back({source, -1});
  };
  for (size_t i = 0; i < guards_.size(); ++i) {
    load_step(load_step, guards_[i].source);
    if (guards_[i].check == Check::Same || guards_[i].check == Check::Different)
      load_step(load_step, static_cast<int>(guards_[i].number));
    steps_.push_back({-1, static_cast<int>(i)});
    if (guards_[i].check == Check::Class)
      versions_[i] = version_of(reinterpret_cast<PyTypeObject*>(guards_[i].expected));
  }
  roles_.resize(static_cast<size_t>(sources_.size()), SourceRole::Neither);
  for (const int source : objects_) roles_[static_cast<size_t>(source)] = SourceRole::Object;
  for (const int source : written) roles_[static_cast<size_t>(source)] = SourceRole::Written;
  for (const int source : needed) load_step(load_step, source);
  if (!written.empty())
    for (const int source : objects_) load_step(load_step, source);
  cache_ = std::make_shared<GuardCache>(CachePlan(sources_.all(), guards_, std::move(written), loaded));
}

void GuardProgram::add_holders(std::vector<std::vector<Object>*>& holders) {
  holders.push_back(&kept_);
  holders.push_back(&sources_.kept());
}

bool GuardProgram::holds(const Guard& g, const Registers& r) const {
  PyObject* x = g.source >= 0 ? r[g.source] : nullptr;
  if (g.check == Check::Absent) return x == nullptr;
  if (g.check == Check::Class) {
    unsigned& seen = versions_[static_cast<size_t>(&g - guards_.data())];
    auto* type = reinterpret_cast<PyTypeObject*>(g.expected);
    if (seen && assigned_version(type) == seen) return true;
    if (!finds_the_same(lookups_, type)) return false;
    seen = version_of(type);
    return true;
  }
  if (!x) return false;
  switch (g.check) {
    case Check::Type: return reinterpret_cast<PyObject*>(Py_TYPE(x)) == g.expected;
    case Check::Is: return x == g.expected;
    case Check::Equals: return same_scalar(x, g.expected);
    case Check::Present: return true;
    case Check::Length:
      if (PyList_Check(x)) return PyList_GET_SIZE(x) == g.number;
      if (PyTuple_Check(x)) return PyTuple_GET_SIZE(x) == g.number;
      if (PyDict_Check(x)) return PyDict_GET_SIZE(x) == g.number;
      return PyAnySet_Check(x) && PySet_GET_SIZE(x) == g.number;
    case Check::Keys: return has_keys(x, keys_[static_cast<size_t>(g.number)]);
    case Check::Members: {
      if (!PyAnySet_Check(x) || PySet_GET_SIZE(x) != PySet_GET_SIZE(g.expected)) return false;
      // Plain keys compare without Python code.
      if (!holds_plain_keys(x)) return false;
      const int equal = PyObject_RichCompareBool(x, g.expected, Py_EQ);
      if (equal < 0) PyErr_Clear();
      return equal == 1;
    }
    case Check::Code:
      return PyFunction_Check(x) && PyFunction_GET_CODE(x) == g.expected &&
             reinterpret_cast<int64_t>(PyFunction_GET_GLOBALS(x)) == g.number;
    case Check::Tensor: return is_tensor(x) && tensor_flags(x) == g.number;
    case Check::Bare: return is_bare(x);
    case Check::Skipped: {
      const Object address = Object::take(PyLong_FromVoidPtr(x));
      const int among = address ? PySet_Contains(g.expected, address.get()) : -1;
      if (among < 0) PyErr_Clear();
      return among == g.number;
    }
    case Check::Same: return x == r[static_cast<int>(g.number)];
    case Check::Different: return x != r[static_cast<int>(g.number)];
    case Check::Absent:
    case Check::Class: break;
  }
  return false;
}

template <class LeftOut>
int GuardProgram::check_steps(const LeftOut& is_left_out, const Roots& roots, Registers& r) const {
  r.objects.assign(static_cast<size_t>(sources_.size()), nullptr);
  r.of_cache = 0;
  for (const Step& s : steps_) {
    if (s.source >= 0) {
      if (!is_left_out(s.source)) load(sources_, s.source, roots, r);
      continue;
    }
    const Guard& g = guards_[static_cast<size_t>(s.guard)];
    const bool pairs = g.check == Check::Same || g.check == Check::Different;
    if (is_left_out(g.source) || (pairs && is_left_out(static_cast<int>(g.number)))) continue;
    if (!holds(g, r)) return s.guard;
  }
  return kHolds;
}

int GuardProgram::check_without(const std::vector<bool>& without, const Roots& roots, Registers& r) const {
  return check_steps([&](int source) { return source >= 0 && without[static_cast<size_t>(source)]; }, roots, r);
}

bool GuardProgram::check_changes(Frame* f, const Roots& roots, Registers& r) const {
  GuardCache& cache = *cache_;
  if (!cache.begins_alike(f)) return false;
  const uint64_t state = cache.state();
  if (r.of_cache != state) {
    r.objects = cache.registers();
    r.apart = false;
  }
  r.of_cache = state;
  // Which sources give one object is known as long as the registers are the same.
  r.moved.clear();
  const auto load_again = [&](int source) {
    PyObject* const was = r[source];
    load(sources_, source, roots, r);
    if (r[source] == was) return;
    const SourceRole role = roles_[static_cast<size_t>(source)];
    if (role == SourceRole::Written) r.apart = false;
    if (role == SourceRole::Object) r.moved.push_back(source);
  };
  // By index: a garbage collection may run Python code that checks this program, and changes the lists.
  for (size_t i = 0; i < cache.plan().first_sources.size(); ++i) load_again(cache.plan().first_sources[i]);
  if (cache.state() != state || !cache.repeats(sources_.all(), r)) return false;
  for (size_t i = 0; i < cache.plan().changing_sources.size(); ++i) load_again(cache.plan().changing_sources[i]);
  for (size_t i = 0; i < cache.changing_guards().size(); ++i)
    if (!holds(guards_[static_cast<size_t>(cache.changing_guards()[i])], r)) return false;
  if (cache.state() != state) return false;
  r.apart = !is_aliased(r, cache.plan().written, r.apart ? r.moved : objects_);
  return r.apart;
}

bool GuardProgram::is_steady(int source) const {
  const CachePlan& plan = cache_->plan();
  return plan.stays[static_cast<size_t>(source)] != CachePlan::Changes &&
         std::ranges::find(plan.first_sources, source) == plan.first_sources.end();
}

int GuardProgram::check(Frame* f, Registers& r) const {
  const Roots roots = roots_of(f);
  if (check_changes(f, roots, r)) return kHolds;
  int failed = check_steps([](int) { return false; }, roots, r);
  if (failed == kHolds && is_aliased(r, cache_->plan().written, objects_)) failed = kAliased;
  if (failed == kHolds && cache_->useful()) cache_->remember(sources_.all(), guards_, r);
  return failed;
}

}  // namespace vesta::capture
