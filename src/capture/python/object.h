// An owned reference to a Python object, or none. A thread that makes, copies or drops one holds the GIL.
#pragma once

#include <Python.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

namespace vesta::capture {

class Object {
 public:
  Object() = default;
  static Object take(PyObject* owned) {
    Object o;
    o.p_ = owned;
    return o;
  }
  static Object share(PyObject* borrowed) { return take(Py_XNewRef(borrowed)); }
  Object(const Object& o) : p_(Py_XNewRef(o.p_)) {}
  Object(Object&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Object& operator=(Object o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Object() { Py_XDECREF(p_); }

  PyObject* get() const { return p_; }
  PyObject* release() { return std::exchange(p_, nullptr); }
  // The address for a function that writes a new reference. Holds no reference before.
  PyObject** out() { return &p_; }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  PyObject* p_ = nullptr;
};

// What a map has for the key, or `otherwise`.
template <class Map>
typename Map::mapped_type found_in(const Map& map, const typename Map::key_type& key,
                                   typename Map::mapped_type otherwise) {
  const auto it = map.find(key);
  return it == map.end() ? otherwise : it->second;
}

// Puts the error that is set aside, and back at the end of the scope.
class ErrorAside {
 public:
  ErrorAside() { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~ErrorAside() { PyErr_Restore(type_, value_, traceback_); }
  ErrorAside& operator=(ErrorAside&&) = delete;  // neither copied nor moved

 private:
  PyObject *type_ = nullptr, *value_ = nullptr, *traceback_ = nullptr;
};

// "__call__"_name is the interned string, made when it is first asked for and kept for good.
template <size_t N>
struct NameText {
  constexpr NameText(const char (&given)[N]) { std::copy_n(given, N, text); }
  char text[N];
};
template <NameText name>
PyObject* operator""_name() {
  static PyObject* const made = PyUnicode_InternFromString(name.text);
  return made;
}

// The attribute of an object (nullptr: none) or of a module that is imported. Empty if there is none; no error is set.
inline Object attribute_of(PyObject* x, const char* name) {
  Object found = Object::take(x ? PyObject_GetAttrString(x, name) : nullptr);
  PyErr_Clear();
  return found;
}
inline Object attribute_of(const char* module, const char* name) {
  return attribute_of(Object::take(PyImport_ImportModule(module)).get(), name);
}

// The items of a tuple, or of a list that stays as it is; nullptr has none.
inline std::span<PyObject* const> span_of(PyObject* x) {
  if (!x) return {};
  return {PySequence_Fast_ITEMS(x), static_cast<size_t>(PySequence_Fast_GET_SIZE(x))};
}

// The object that a member of x holds, such as a slot, by the member's offset in bytes.
inline PyObject*& member_at(PyObject* x, Py_ssize_t offset) {
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(x) + offset);
}

// A list of what f makes of the items of a tuple or list; the sequence itself if they stay. Empty: f or Python failed.
template <class F>
Object mapped_items(PyObject* sequence, F&& f) {
  Object copy;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(sequence, i);
    Object made = f(item);
    if (!made) return {};
    if (made.get() == item) continue;
    if (!copy) copy = Object::take(PySequence_List(sequence));
    if (!copy || PyList_SetItem(copy.get(), i, made.release()) < 0) return {};
  }
  return copy ? copy : Object::share(sequence);
}

// The text of a str; empty for anything else and for a str with surrogates.
inline std::string_view utf8_of(PyObject* x) {
  Py_ssize_t n = 0;
  const char* text = x && PyUnicode_Check(x) ? PyUnicode_AsUTF8AndSize(x, &n) : nullptr;
  if (text) return {text, static_cast<size_t>(n)};
  if (x && PyUnicode_Check(x)) PyErr_Clear();
  return {};
}

}  // namespace vesta::capture
