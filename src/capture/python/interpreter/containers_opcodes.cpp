// Instructions that make, fill, read and unpack containers.
#include <vector>

#include "capture/python/interpreter/handlers.h"

namespace vesta::capture {
namespace {

// The first of n operands.
PyObject** operands(Evaluation& e, int n) { return n > 0 ? &peek(e.frame, n) : nullptr; }

template <PyObject* (*make)(Py_ssize_t)>
Step build_sequence(Evaluation& e, int oparg) {
  PyObject* sequence = make(oparg);
  if (sequence == nullptr) return Step::Error;
  for (int i = oparg; i-- > 0;) PySequence_Fast_ITEMS(sequence)[i] = pop(e.frame);
  return replace(e, 0, sequence);
}

Step build_set(Evaluation& e, int oparg) {
  Object set = Object::take(PySet_New(nullptr));
  if (!set) return Step::Error;
  for (int i = oparg; i > 0; --i)
    if (e.operations.hashes(peek(e.frame, i)) < 0 || PySet_Add(set.get(), peek(e.frame, i)) < 0) return Step::Error;
  return replace(e, oparg, set.release());
}

Step build_map(Evaluation& e, int oparg) {
  Object dict = Object::take(PyDict_New());
  if (!dict) return Step::Error;
  for (int i = 2 * oparg; i > 0; i -= 2)
    if (e.operations.hashes(peek(e.frame, i)) < 0 ||
        PyDict_SetItem(dict.get(), peek(e.frame, i), peek(e.frame, i - 1)) < 0)
      return Step::Error;
  return replace(e, 2 * oparg, dict.release());
}

Step build_const_key_map(Evaluation& e, int oparg) {
  PyObject* keys = peek(e.frame, 1);
  if (!PyTuple_CheckExact(keys) || PyTuple_GET_SIZE(keys) != oparg)
    return fail(PyExc_SystemError, "bad BUILD_CONST_KEY_MAP keys argument");
  Object dict = Object::take(PyDict_New());
  if (!dict) return Step::Error;
  for (int i = 0; i < oparg; ++i)
    if (PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(keys, i), peek(e.frame, oparg + 1 - i)) < 0) return Step::Error;
  return replace(e, oparg + 1, dict.release());
}

// The container n below the top, which is about to change; nullptr with an error set.
PyObject* target(Evaluation& e, int n) {
  PyObject* x = peek(e.frame, n);
  return e.operations.changes(x) < 0 ? nullptr : x;
}

Step list_append(Evaluation& e, int oparg) {
  PyObject* list = target(e, oparg + 1);
  return done(e, 1, list != nullptr ? PyList_Append(list, peek(e.frame, 1)) : -1);
}

Step set_add(Evaluation& e, int oparg) {
  PyObject* set = target(e, oparg + 1);
  const bool may = set != nullptr && e.operations.hashes(peek(e.frame, 1)) == 0;
  return done(e, 1, may ? PySet_Add(set, peek(e.frame, 1)) : -1);
}

Step map_add(Evaluation& e, int oparg) {
  PyObject* dict = target(e, oparg + 2);
  const bool may = dict != nullptr && e.operations.hashes(peek(e.frame, 2)) == 0;
  return done(e, 2, may ? PyDict_SetItem(dict, peek(e.frame, 2), peek(e.frame, 1)) : -1);
}

template <int (Operations::*update)(PyObject*, PyObject*)>
Step update_by(Evaluation& e, int oparg) {
  if (target(e, oparg + 1) == nullptr) return Step::Error;
  return done(e, 1, (e.operations.*update)(peek(e.frame, oparg + 1), peek(e.frame, 1)));
}

Step dict_merge(Evaluation& e, int oparg) {  // operands below the dict: the positional arguments, then the callable
  if (target(e, oparg + 1) == nullptr) return Step::Error;
  PyObject* callable = peek(e.frame, oparg + (python_minor >= 13 ? 4 : 3));
  return done(e, 1, e.operations.merge_keywords(callable, peek(e.frame, oparg + 1), peek(e.frame, 1)));
}

Step list_to_tuple(Evaluation& e, int) { return replace(e, 1, e.operations.list_to_tuple(peek(e.frame, 1))); }

Step unpack(Evaluation& e, int before, int after) {
  std::vector<PyObject*> items(before + (after < 0 ? 0 : 1 + after));
  if (e.operations.unpack(peek(e.frame, 1), before, after, items.data()) < 0) return Step::Error;
  drop(e, 1);
  for (size_t i = items.size(); i-- > 0;) push(e.frame, items[i]);
  return Step::Next;
}

Step unpack_sequence(Evaluation& e, int oparg) { return unpack(e, oparg, -1); }
Step unpack_ex(Evaluation& e, int oparg) { return unpack(e, oparg & 0xff, oparg >> 8); }

Step build_string(Evaluation& e, int oparg) { return replace(e, oparg, e.operations.join(operands(e, oparg), oparg)); }

Step binary_subscr(Evaluation& e, int) {
  return replace(e, 2, e.operations.get_item(peek(e.frame, 2), peek(e.frame, 1)));
}

Step store_subscr(Evaluation& e, int) {
  return done(e, 3, e.operations.set_item(peek(e.frame, 2), peek(e.frame, 1), peek(e.frame, 3)));
}

Step delete_subscr(Evaluation& e, int) {
  return done(e, 2, e.operations.set_item(peek(e.frame, 2), peek(e.frame, 1), nullptr));
}

Step build_slice(Evaluation& e, int oparg) {
  PyObject* step = oparg == 3 ? peek(e.frame, 1) : nullptr;
  return replace(e, oparg, PySlice_New(peek(e.frame, oparg), peek(e.frame, oparg - 1), step));
}

Step binary_slice(Evaluation& e, int) {
  Object slice = Object::take(PySlice_New(peek(e.frame, 2), peek(e.frame, 1), nullptr));
  if (!slice) return Step::Error;
  return replace(e, 3, e.operations.get_item(peek(e.frame, 3), slice.get()));
}

Step store_slice(Evaluation& e, int) {
  Object slice = Object::take(PySlice_New(peek(e.frame, 2), peek(e.frame, 1), nullptr));
  if (!slice) return Step::Error;
  return done(e, 4, e.operations.set_item(peek(e.frame, 3), slice.get(), peek(e.frame, 4)));
}

constexpr Row kContainerRows[] = {
    {"BUILD_TUPLE", 11, 13, build_sequence<PyTuple_New>},
    {"BUILD_LIST", 11, 13, build_sequence<PyList_New>},
    {"BUILD_SET", 11, 13, build_set},
    {"BUILD_MAP", 11, 13, build_map},
    {"BUILD_CONST_KEY_MAP", 11, 13, build_const_key_map},
    {"BUILD_STRING", 11, 13, build_string},
    {"LIST_APPEND", 11, 13, list_append},
    {"SET_ADD", 11, 13, set_add},
    {"MAP_ADD", 11, 13, map_add},
    {"LIST_EXTEND", 11, 13, update_by<&Operations::extend_list>},
    {"SET_UPDATE", 11, 13, update_by<&Operations::update_set>},
    {"DICT_UPDATE", 11, 13, update_by<&Operations::update_dict>},
    {"DICT_MERGE", 11, 13, dict_merge},
    {"LIST_TO_TUPLE", 11, 11, list_to_tuple},
    {"UNPACK_SEQUENCE", 11, 13, unpack_sequence},
    {"UNPACK_EX", 11, 13, unpack_ex},
    {"BINARY_SUBSCR", 11, 13, binary_subscr},
    {"STORE_SUBSCR", 11, 13, store_subscr},
    {"DELETE_SUBSCR", 11, 13, delete_subscr},
    {"BUILD_SLICE", 11, 13, build_slice},
    {"BINARY_SLICE", 12, 13, binary_slice},
    {"STORE_SLICE", 12, 13, store_slice},
};

}  // namespace

std::span<const Row> container_rows() { return kContainerRows; }

}  // namespace vesta::capture
