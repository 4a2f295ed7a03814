#include "capture/python/tracer/last_references.h"

#include <opcode.h>

#include <algorithm>

#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/classes.h"
#include "capture/python/weak_references.h"

namespace vesta::capture {
namespace {

// A weak table of PyTorch's (torch.utils.weak) drops its entry by this callback. A later drop is not observable.
bool is_weak_table(PyObject* callback) {
  if (!callback || !PyFunction_Check(callback)) return false;
  PyObject* own = reinterpret_cast<PyFunctionObject*>(callback)->func_module;
  return own && PyUnicode_Check(own) && PyUnicode_Compare(own, "torch.utils.weak"_name) == 0;
}

bool has_weak_references(PyObject* x) {
  auto* reference = reinterpret_cast<PyWeakReference*>(*PyObject_GET_WEAKREFS_LISTPTR(x));
  while (reference && (is_weak_table(reference->wr_callback) || WeakReferences::is_one(reference)))
    reference = reference->wr_next;
  return reference != nullptr;
}

// A weak reference, a finalizer or a generator observes the object's death.
bool is_observed(PyObject* x, int depth = 2) {
  PyTypeObject* type = Py_TYPE(x);
  if (is_tensor(x)) {
    PyObject** attributes = depth > 0 ? _PyObject_GetDictPtr(x) : nullptr;
    Py_ssize_t at = 0;
    PyObject* value = nullptr;
    while (attributes && *attributes && PyDict_Next(*attributes, &at, nullptr, &value))
      if (is_observed(value, depth - 1)) return true;
    return has_weak_references(x);
  }
  if (PyGen_CheckExact(x)) return true;  // its `finally` blocks
  if (is_python_class(type) && _PyType_Lookup(type, "__del__"_name)) return true;
  if (PyType_SUPPORTS_WEAKREFS(type) && !PyType_Check(x) && has_weak_references(x)) return true;
  // A list's items may die with it.
  constexpr Py_ssize_t kMostItems = 1000;
  if (depth == 0 || !(PyList_CheckExact(x) || PyTuple_CheckExact(x))) return false;
  for (Py_ssize_t i = 0; i < std::min(PySequence_Fast_GET_SIZE(x), kMostItems); ++i)
    if (is_observed(PySequence_Fast_GET_ITEM(x, i), depth - 1)) return true;
  return false;
}

// The object that an instruction takes from a variable or from the stack; nullptr: none.
PyObject* dropped(Frame* f, int opcode, int oparg) {
  switch (opcode) {
    case POP_TOP: return depth_of(f) > 0 ? peek(f, 1) : nullptr;
    case STORE_FAST:
    case DELETE_FAST: return slot(f, oparg);
    case STORE_DEREF:
    case DELETE_DEREF: return slot(f, oparg) && PyCell_Check(slot(f, oparg)) ? PyCell_GET(slot(f, oparg)) : nullptr;
    default: return nullptr;
  }
}

// A local variable of the segment's frame holds what another variable or the stack drops.
bool is_held_by_root(const Trace& t, PyObject* x, int source, bool from_slot) {
  if (from_slot || source < 0 || t.sources[source].kind != SourceKind::Local) return false;
  const int index = t.sources[source].index;
  PyObject* held = index < code_of(t.root)->co_nlocalsplus ? slot(t.root, index) : nullptr;
  return held && t.tensors.held_by_program(held) == x;
}

}  // namespace

void check_dropped_references(Trace& t, Frame* f, int position) {
  int units = 0;
  const unsigned char* code = pristine_code(code_of(f), &units) + 2 * position;
  const int opcode = code[0], oparg = code[1];
  if (PyObject* x = dropped(f, opcode, oparg)) {
    x = t.tensors.held_by_program(x);
    const int source = t.sources.find(x);
    const bool from_slot =
        f == t.root && (opcode == STORE_FAST || opcode == DELETE_FAST) && t.variables.is_entry_value(oparg);
    const bool is_argument = source >= 0 && t.sources[source].kind == SourceKind::Local;
    if ((from_slot || is_argument) && !is_held_by_root(t, x, source, f == t.root && opcode != POP_TOP) &&
        is_observed(x))
      t.graph_break(Break::LastReference, Py_TYPE(x)->tp_name);
  }
  if (opcode == RAISE_VARARGS && oparg > 0) {
    PyObject* x = peek(f, oparg);
    if (x && PyExceptionInstance_Check(x) && t.sources.find(x) >= 0) t.graph_break(Break::OuterExceptionRaised);
  }
}

}  // namespace vesta::capture
