#include "capture/python/interpreter/handlers.h"

namespace vesta::capture {
namespace {

Step get_iter(Evaluation& e, int) { return replace(e, 1, e.operations.get_iter(peek(e.frame, 1))); }

Step for_iter(Evaluation& e, int oparg) {
  PyObject* x = e.operations.next(peek(e.frame, 1));
  if (x != nullptr) {
    push(e.frame, x);
    return Step::Next;
  }
  if (PyErr_Occurred() != nullptr) return Step::Error;
  drop(e, 1);
  // The target would pop the iterator: it is END_FOR, in 3.13 followed by POP_TOP.
  constexpr int skipped = python_minor - 11;
  e.position += oparg + skipped;
  return Step::Next;
}

Step end_for(Evaluation& e, int) {
  drop(e, python_minor >= 13 ? 1 : 2);
  return Step::Next;
}

constexpr Row rows[] = {
    {"GET_ITER", 11, 13, get_iter},
    {"FOR_ITER", 11, 13, for_iter},
    {"END_FOR", 12, 13, end_for},
};

}  // namespace

std::span<const Row> loop_rows() { return rows; }

}  // namespace vesta::capture
