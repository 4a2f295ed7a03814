#include "capture/python/interpreter/handlers.h"

namespace vesta::capture {
namespace {

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

constexpr Row rows[] = {
    {"BINARY_SUBSCR", 11, 13, binary_subscr}, {"STORE_SUBSCR", 11, 13, store_subscr},
    {"DELETE_SUBSCR", 11, 13, delete_subscr}, {"BUILD_SLICE", 11, 13, build_slice},
    {"BINARY_SLICE", 12, 13, binary_slice},   {"STORE_SLICE", 12, 13, store_slice},
};

}  // namespace

std::span<const Row> subscript_rows() { return rows; }

}  // namespace vesta::capture
