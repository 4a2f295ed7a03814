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

PyNumberMethods make_numbers() {
  PyNumberMethods n{};
  n.nb_add = binary<0>;
  n.nb_and = binary<1>;
  n.nb_floor_divide = binary<2>;
  n.nb_lshift = binary<3>;
  n.nb_matrix_multiply = binary<4>;
  n.nb_multiply = binary<5>;
  n.nb_remainder = binary<6>;
  n.nb_or = binary<7>;
  n.nb_power = power;
  n.nb_rshift = binary<9>;
  n.nb_subtract = binary<10>;
  n.nb_true_divide = binary<11>;
  n.nb_xor = binary<12>;
  n.nb_negative = unary<Compute::Negative>;
  n.nb_positive = unary<Compute::Positive>;
  n.nb_invert = unary<Compute::Invert>;
  n.nb_absolute = specialize;
  n.nb_bool = truth;
  n.nb_int = specialize;
  n.nb_float = specialize;
  n.nb_index = specialize;
  return n;
}

PyTypeObject* type() {
  static PyNumberMethods numbers = make_numbers();
  static PySequenceMethods sequence{};
  static PyMappingMethods mapping{};
  static PyTypeObject type{PyVarObject_HEAD_INIT(nullptr, 0)};
  if (!type.tp_name) {
    sequence.sq_contains = contains;
    mapping.mp_length = length;
    mapping.mp_subscript = item;
    type.tp_name = "vesta.number";
    type.tp_basicsize = sizeof(SymbolicScalar);
    type.tp_flags = Py_TPFLAGS_DEFAULT;
    type.tp_dealloc = free;
    type.tp_as_number = &numbers;
    type.tp_as_sequence = &sequence;
    type.tp_as_mapping = &mapping;
    type.tp_richcompare = compare;
    type.tp_hash = hash;
    type.tp_repr = specialize;
    type.tp_str = specialize;
    type.tp_iter = specialize;
    type.tp_getattro = attribute;
    if (PyType_Ready(&type) < 0) PyErr_Clear();
  }
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
