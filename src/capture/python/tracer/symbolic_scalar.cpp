#include "capture/python/tracer/symbolic_scalar.h"

#include "capture/python/object.h"
#include "capture/python/sources/compute.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/tracer.h"
#include "capture/python/tracer/tracer_scope.h"

namespace vesta::capture {
namespace {

struct SymbolicScalar {
  PyObject_HEAD;
  PyObject* value;
  int source;
};

PyObject* specialize(PyObject* x) {
  if (Tracer* t = tracing()) return t->trace.numbers.specialize(x);
  PyErr_SetString(PyExc_RuntimeError, "a symbolic scalar has outlived its trace");
  return nullptr;
}

PyObject* calculate(int operation, PyObject* a, PyObject* b) {
  Tracer* t = tracing();
  PyObject* scalar = is_symbolic_scalar(a) ? a : b;
  if (!t) return specialize(scalar);
  PyObject* result = t->trace.numbers.calculate(operation, a, b);
  if (result != Py_NotImplemented || is_tensor(a) || is_tensor(b)) return result;
  // C code would take it for an object that is equal to nothing.
  Py_DECREF(result);
  return specialize(scalar);
}

template <int op>
PyObject* binary(PyObject* a, PyObject* b) {
  return calculate(Compute::Binary + op, a, b);
}
PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  constexpr int NB_POWER_ = 8;
  return modulus == Py_None ? binary<NB_POWER_>(a, b)
                            : specialize(is_symbolic_scalar(a)   ? a
                                         : is_symbolic_scalar(b) ? b
                                                                 : modulus);
}
PyObject* compare(PyObject* a, PyObject* b, int op) { return calculate(Compute::Compare + op, a, b); }

template <int operation>
PyObject* unary(PyObject* x) {
  return calculate(operation, x, nullptr);
}

int truth(PyObject* x) {
  const Object b = Object::take(calculate(Compute::Truth, x, nullptr));
  return b ? b.get() == Py_True : -1;
}
Py_hash_t hash(PyObject* x) { return specialize(x), -1; }
Py_ssize_t length(PyObject* x) { return specialize(x), -1; }
int contains(PyObject* x, PyObject*) { return specialize(x), -1; }
PyObject* item(PyObject* x, PyObject*) { return specialize(x); }
PyObject* attribute(PyObject* x, PyObject*) { return specialize(x); }
void free(PyObject* x) {
  Py_XDECREF(reinterpret_cast<SymbolicScalar*>(x)->value);
  Py_TYPE(x)->tp_free(x);
}

PyNumberMethods numbers = {.nb_add = binary<0>,
                           .nb_subtract = binary<10>,
                           .nb_multiply = binary<5>,
                           .nb_remainder = binary<6>,
                           .nb_power = power,
                           .nb_negative = unary<Compute::Negative>,
                           .nb_positive = unary<Compute::Positive>,
                           .nb_absolute = specialize,
                           .nb_bool = truth,
                           .nb_invert = unary<Compute::Invert>,
                           .nb_lshift = binary<3>,
                           .nb_rshift = binary<9>,
                           .nb_and = binary<1>,
                           .nb_xor = binary<12>,
                           .nb_or = binary<7>,
                           .nb_int = specialize,
                           .nb_float = specialize,
                           .nb_floor_divide = binary<2>,
                           .nb_true_divide = binary<11>,
                           .nb_index = specialize,
                           .nb_matrix_multiply = binary<4>};
PySequenceMethods sequence = {.sq_contains = contains};
PyMappingMethods mapping = {.mp_length = length, .mp_subscript = item};

PyTypeObject* type() {
  static PyTypeObject type = {.ob_base = {PyObject_HEAD_INIT(nullptr) 0},
                              .tp_name = "vesta.number",
                              .tp_basicsize = sizeof(SymbolicScalar),
                              .tp_dealloc = free,
                              .tp_repr = specialize,
                              .tp_as_number = &numbers,
                              .tp_as_sequence = &sequence,
                              .tp_as_mapping = &mapping,
                              .tp_hash = hash,
                              .tp_str = specialize,
                              .tp_getattro = attribute,
                              .tp_flags = Py_TPFLAGS_DEFAULT,
                              .tp_richcompare = compare,
                              .tp_iter = specialize};
  static const bool is_ready = PyType_Ready(&type) == 0;
  if (!is_ready) PyErr_Clear();
  return &type;
}

}  // namespace

bool is_symbolic_scalar(PyObject* x) { return Py_TYPE(x)->tp_dealloc == free; }
PyObject* scalar_value(PyObject* x) { return reinterpret_cast<SymbolicScalar*>(x)->value; }
int scalar_source(PyObject* x) { return reinterpret_cast<SymbolicScalar*>(x)->source; }

PyObject* make_symbolic_scalar(PyObject* value, int source) {
  auto* x = PyObject_New(SymbolicScalar, type());
  if (!x) return nullptr;
  x->value = Py_NewRef(value);
  x->source = source;
  return reinterpret_cast<PyObject*>(x);
}

PyObject* first_symbolic_scalar(PyObject* x, int depth) {
  if (is_symbolic_scalar(x)) return x;
  if (depth == 0) return nullptr;
  PyObject* found = nullptr;
  if (PyTuple_Check(x) || PyList_Check(x)) {
    for (Py_ssize_t i = 0; !found && i < PySequence_Fast_GET_SIZE(x); ++i)
      found = first_symbolic_scalar(PySequence_Fast_GET_ITEM(x, i), depth - 1);
  } else if (PyDict_Check(x)) {
    PyObject* value = nullptr;
    Py_ssize_t at = 0;
    while (!found && PyDict_Next(x, &at, nullptr, &value)) found = first_symbolic_scalar(value, depth - 1);
  }
  return found;
}

}  // namespace vesta::capture
