#include "capture/python/tracer/number_model.h"

#include <optional>

#include "capture/python/hook/hook.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/symbolic_scalar.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/class_sets.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture {
namespace {

constexpr size_t kMostConstants = 4;  // that variants hold for one source; past it, the program needs a symbolic scalar

// Whether the source may have one more constant. `whole`: it may have any number.
bool takes_constant(ScalarHistory& history, PyObject* x, bool whole) {
  for (const Object& c : history.constants)
    if (same_scalar(c.get(), x)) return true;
  if (history.constants.size() >= kMostConstants && !whole) return false;
  history.constants.push_back(Object::share(x));
  return true;
}

}  // namespace

PyObject* NumberModel::track_int(PyObject* x, int source) {
  if (t_.containers.is_exact()) return track_scalar(x, source);
  if (const auto it = symbols_.find(source); it != symbols_.end()) return Py_NewRef(it->second.get());
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(x, &overflow);
  if (!is_symbolic_source(source, value, overflow != 0)) return track_scalar(x, source);
  PyObject* symbol = add_integer_input(value, t_.guards.source_text(source));
  if (!symbol) return t_.graph_break(trace_failure());
  t_.guards.add(Check::Type, source, reinterpret_cast<PyObject*>(&PyLong_Type));
  integers_.push_back({source, value});
  symbols_[source] = Object::share(symbol);
  return symbol;
}

bool NumberModel::is_symbolic_source(int source, int64_t value, bool overflow) {
  ValueHistory* history = t_.settings.history;
  if (overflow || !history) return false;
  const std::string key = t_.guards.history_key(source);
  const auto [it, is_first] = history->shapes.try_emplace(key);
  const bool was_tensor = !is_first && it->second.values.size() != 1;
  const bool changed = it->second.add({value})[0] || was_tensor;
  it->second.changed[0] = changed;
  const auto scalar = history->scalars.find(key);
  const bool specialized = scalar != history->scalars.end() && scalar->second.specialized;
  return changed && t_.settings.dynamic.value_or(true) && t_.settings.symbols && !specialized && value >= 2 &&
         value < (1LL << 40);
}

PyObject* NumberModel::track_scalar(PyObject* x, int source) {
  ValueHistory* histories = t_.settings.history;
  if (histories && t_.settings.dynamic != std::optional<bool>(false) &&
      t_.sources[source].kind != SourceKind::Constant) {
    const std::string key = t_.guards.history_key(source);
    ScalarHistory& history = histories->scalars[key];
    if (history.last && !same_scalar(history.last.get(), x)) history.changed = true;
    history.last = Object::share(x);
    // A float that an instruction has left on the stack is the result of a graph break: most often a tensor's item.
    const bool is_result = t_.sources[source].kind == SourceKind::Local &&
                           t_.sources[source].index >= code_of(t_.root)->co_nlocalsplus && PyFloat_CheckExact(x);
    const bool exact = t_.containers.is_exact();
    if ((history.changed || is_result) &&
        ((PyFloat_CheckExact(x) && !history.specialized && !exact) || !takes_constant(history, x, t_.settings.whole))) {
      if (exact) return t_.graph_break(Break::ChangingNumberInContainer);
      t_.guards.add(Check::Type, source, reinterpret_cast<PyObject*>(Py_TYPE(x)));
      scalar_keys_[source] = key;
      return make_scalar(x, source);
    }
  }
  t_.guards.add(Check::Equals, source, x);
  return Py_NewRef(x);
}

PyObject* NumberModel::make_scalar(PyObject* value, int source) {
  PyObject* x = make_symbolic_scalar(value, source);
  if (x && t_.progress.place().frame == t_.root) {
    t_.sources.keep(x);
    t_.made.add_result(x);
  }
  return x;
}

int NumberModel::symbol_source(PyObject* x) const {
  for (const auto& [source, symbol] : symbols_)
    if (symbol.get() == x) return source;
  return -1;
}

PyObject* NumberModel::specialize(PyObject* x) {
  if (t_.ended()) return Progress::stopped();
  std::vector<int> open{scalar_source(x)};
  bool is_new = false;
  while (!open.empty()) {
    const int s = open.back();
    open.pop_back();
    if (s < 0) continue;
    if (const auto it = scalar_keys_.find(s); it != scalar_keys_.end()) {
      ScalarHistory& history = t_.settings.history->scalars[it->second];
      is_new |= !history.specialized;
      history.specialized = true;
    } else if (t_.sources[s].kind == SourceKind::Computed) {
      open.insert(open.end(), {t_.sources[s].parent, t_.sources[s].other});
    }
  }
  t_.progress.want_value(is_new);
  return t_.graph_break(Break::ChangingNumber);
}

void NumberModel::note_failure(PyObject* x) {
  if (t_.ended() || !is_symbolic(x) || PyErr_ExceptionMatches(PyExc_StopIteration)) return;
  if (Reason failure = trace_failure(); !failure.empty()) {  // the number is not to blame
    t_.graph_break(std::move(failure));
    return;
  }
  const int source = symbol_source(x);
  if (source < 0 || !t_.settings.history) {
    t_.graph_break(Break::SymbolicNumber);
    return;
  }
  // Only this argument becomes a constant.
  t_.settings.history->scalars[t_.guards.history_key(source)].specialized = true;
  t_.progress.want_value(true);
  t_.graph_break(Break::ChangingNumber);
}

PyObject* NumberModel::plain(PyObject* x, int depth) {
  if (is_symbolic_scalar(x)) return specialize(x);
  if (is_symbolic_int(x)) {
    const HookOff off;
    return t_.tracker.finish_call(PyNumber_Index(x));
  }
  if (depth == 0) return Py_NewRef(x);
  const bool is_size = is_of(x, ClassSet::TorchSize);
  if (PyTuple_CheckExact(x) || PyList_CheckExact(x) || is_size) {
    const Object list = mapped_items(x, [&](PyObject* item) { return Object::take(plain(item, depth - 1)); });
    if (!list || list.get() == x) return list ? Py_NewRef(x) : nullptr;
    if (PyList_Check(x)) return Py_NewRef(list.get());
    const Object tuple = Object::take(PyList_AsTuple(list.get()));
    if (!tuple || !is_size) return Py_XNewRef(tuple.get());
    return PyObject_CallOneArg(reinterpret_cast<PyObject*>(Py_TYPE(x)), tuple.get());
  }
  if (!PyDict_CheckExact(x)) return Py_NewRef(x);
  Object copy;
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(x, &at, &key, &value);) {
    const Object item = Object::take(plain(value, depth - 1));
    if (!item) return nullptr;
    if (item.get() == value) continue;
    if (!copy) copy = Object::take(PyDict_Copy(x));
    if (!copy || PyDict_SetItem(copy.get(), key, item.get()) < 0) return nullptr;
  }
  return Py_NewRef(copy ? copy.get() : x);
}

}  // namespace vesta::capture
