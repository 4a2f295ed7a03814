#include "capture/python/frame/warnings.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace vesta::capture {
namespace {

thread_local std::vector<Warning>* kept = nullptr;

void place(Warning& w, const Frame* f, int position) {
  w.file = Object::share(code_of(f)->co_filename);
  w.globals = Object::share(globals_of(f));
  w.line = line_of(code_of(f), position);
}

}  // namespace

bool Warning::operator==(const Warning& o) const {
  return category.get() == o.category.get() && PyUnicode_Compare(message.get(), o.message.get()) == 0;
}

WarningsKept::WarningsKept(std::vector<Warning>& into) : before_(kept) { kept = &into; }
WarningsKept::~WarningsKept() { kept = before_; }

int warn(PyObject* category, const char* text, Py_ssize_t level) {
  if (!kept) return PyErr_WarnEx(category, text, level);
  Warning w;
  w.category = Object::share(category ? category : PyExc_RuntimeWarning);
  w.message = Object::take(PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "replace"));
  if (!w.message) return -1;
  const Frame* f = current_frame(PyThreadState_Get());
  while (f && !is_complete(f)) f = caller_of(f);
  if (f) place(w, f, executing(f));
  kept->push_back(std::move(w));
  return 0;
}

std::vector<Warning> warnings_without(const std::vector<Warning>& given, std::vector<Warning> known) {
  std::vector<Warning> out;
  for (const Warning& w : given) {
    const auto at = std::find(known.begin(), known.end(), w);
    if (at == known.end())
      out.push_back(w);
    else
      known.erase(at);
  }
  return out;
}

void append(std::vector<Warning>& to, std::vector<Warning> more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

void place(std::vector<Warning>& warnings, const Frame* f, int position) {
  for (Warning& w : warnings) place(w, f, position);
}

bool give(const std::vector<Warning>& warnings) {
  for (const Warning& w : warnings) {
    if (!w.globals) {
      if (PyErr_WarnEx(w.category.get(), PyUnicode_AsUTF8(w.message.get()), 1) < 0) return false;
      continue;
    }
    PyObject* globals = w.globals.get();
    const Object key = Object::take(PyUnicode_FromString("__warningregistry__"));
    PyObject* registry = key ? PyDict_GetItemWithError(globals, key.get()) : nullptr;
    if (!registry && PyErr_Occurred()) return false;
    Object made;
    if (!registry) {
      made = Object::take(PyDict_New());
      if (!made || PyDict_SetItem(globals, key.get(), made.get()) < 0) return false;
      registry = made.get();
    }
    PyObject* name = PyDict_GetItemString(globals, "__name__");
    if (PyErr_WarnExplicitObject(w.category.get(), w.message.get(), w.file.get(), w.line,
                                 name && PyUnicode_Check(name) ? name : nullptr, registry) < 0)
      return false;
  }
  return true;
}

bool may_become_errors() {
  const Object filters = attribute_of("warnings", "filters");
  const Object all = Object::take(filters ? PySequence_Fast(filters.get(), "") : nullptr);
  if (!all) return PyErr_Clear(), true;
  for (PyObject* filter : span_of(all.get())) {
    if (!PyTuple_Check(filter) || PyTuple_GET_SIZE(filter) == 0) return true;
    PyObject* action = PyTuple_GET_ITEM(filter, 0);
    if (!PyUnicode_Check(action) || PyUnicode_CompareWithASCIIString(action, "error") == 0) return true;
  }
  return false;
}

}  // namespace vesta::capture
