// What instructions do to objects. This class does it as CPython's evaluator does. A derived class, such as a tracer,
// overrides the functions that it must see. Arguments are borrowed, results are new references; nullptr or -1 with an
// error set is a failure.
#pragma once

#include "capture/python/frame/frame.h"

namespace vesta::capture {

class Operations {
 public:
  virtual ~Operations() = default;

  // Before every instruction. False: the evaluation stops here, with the frame as it is (see evaluate()).
  virtual bool before(Frame*, int /*position*/) { return true; }
  // No handler may run any more: frames are left with the error that is set.
  virtual bool aborted() const { return false; }
  // At function starts, backward jumps and after calls: signals, pending calls, other threads, from 3.12 on the garbage
  // collector; any of them may run Python code.
  virtual int pending(PyThreadState* t) { return handle_pending(t); }

  // An instruction has made this cell or function.
  virtual void made(PyObject* /*x*/) {}
  // An inner function is about to share the cell in a slot.
  virtual void share_cell(Frame*, int /*slot*/) {}
  // An instruction is about to change x: a list, set or dict that it builds on the stack, or an iterator that it
  // advances.
  virtual int changes(PyObject* /*x*/) { return 0; }

  // An instruction is about to make x a key of a set or dict that it builds.
  virtual int hashes(PyObject* /*x*/) { return 0; }

  // ---- variables. nullptr without an error: unbound.
  // The variable in a slot is about to be assigned, deleted or put aside.
  virtual void storing(Frame*, int /*slot*/) {}
  virtual bool is_bound(Frame* f, int slot) { return capture::slot(f, slot) != nullptr; }
  virtual PyObject* load_fast(Frame* f, int slot) { return Py_XNewRef(capture::slot(f, slot)); }
  // The contents of the cell in a slot.
  virtual PyObject* load_cell(Frame* f, int slot) { return PyCell_Get(capture::slot(f, slot)); }
  // `value` may be nullptr: del.
  virtual int store_cell(Frame* f, int slot, PyObject* value) { return PyCell_Set(capture::slot(f, slot), value); }
  virtual PyObject* load_global(Frame* f, PyObject* name);              // globals, then builtins; sets NameError
  virtual int store_global(Frame* f, PyObject* name, PyObject* value);  // value may be nullptr: del

  // ---- objects
  virtual PyObject* get_attr(PyObject* owner, PyObject* name) { return PyObject_GetAttr(owner, name); }
  virtual int set_attr(PyObject* owner, PyObject* name, PyObject* value);  // value may be nullptr: del
  virtual PyObject* get_item(PyObject* container, PyObject* key) { return PyObject_GetItem(container, key); }
  virtual int set_item(PyObject* container, PyObject* key, PyObject* value);  // value may be nullptr: del
  virtual PyObject* binary(int op, PyObject* left, PyObject* right);          // op: NB_ADD ... NB_INPLACE_XOR
  enum class Unary { Positive, Negative, Not, Invert };
  virtual PyObject* unary(Unary op, PyObject* x);
  // op: Py_LT ...
  virtual PyObject* compare(int op, PyObject* left, PyObject* right) { return PyObject_RichCompare(left, right, op); }
  virtual int is_same(PyObject* left, PyObject* right) { return left == right; }
  virtual int is_instance(PyObject* x, PyObject* type) { return PyObject_IsInstance(x, type); }
  virtual int contains(PyObject* container, PyObject* x) { return PySequence_Contains(container, x); }
  virtual int is_true(PyObject* x) { return PyObject_IsTrue(x); }
  virtual Py_ssize_t length(PyObject* x) { return PyObject_Size(x); }
  virtual PyObject* get_iter(PyObject* x) { return PyObject_GetIter(x); }
  virtual PyObject* next(PyObject* iterator) { return PyIter_Next(iterator); }  // nullptr without an error: exhausted
  // Items of `x` into out[0 .. before + (after < 0 ? 0 : 1 + after)), the middle one a list, as
  // UNPACK_SEQUENCE/UNPACK_EX.
  virtual int unpack(PyObject* x, int before, int after, PyObject** out);
  // obj's method of the special name, looked up on its type and bound (nullptr without an error: none).
  virtual PyObject* lookup_special(PyObject* obj, PyObject* name);
  virtual PyObject* format(PyObject* x, PyObject* spec);  // spec may be nullptr
  enum class Conversion { None, Str, Repr, Ascii };
  virtual PyObject* convert(PyObject* x, Conversion kind);
  virtual PyObject* join(PyObject* const* pieces, int n);  // of an f-string
  virtual int extend_list(PyObject* list, PyObject* iterable);
  virtual int update_set(PyObject* set, PyObject* iterable);
  virtual int update_dict(PyObject* dict, PyObject* mapping);                         // {**mapping}
  virtual int merge_keywords(PyObject* callable, PyObject* dict, PyObject* mapping);  // f(**mapping)
  virtual PyObject* list_to_tuple(PyObject* list) { return PyList_AsTuple(list); }

  // ---- calls. `flags` may contain PY_VECTORCALL_ARGUMENTS_OFFSET.
  virtual PyObject* call(PyObject* callable, PyObject* const* args, size_t flags, PyObject* keyword_names);
  virtual PyObject* call_unpacked(PyObject* callable, PyObject* args_tuple,
                                  PyObject* keywords);  // keywords may be nullptr

  // ---- imports
  virtual PyObject* import_name(Frame* f, PyObject* name, PyObject* fromlist, PyObject* level);
  virtual PyObject* import_from(PyObject* module, PyObject* name);
};

// The functions of Python's binary operators, in the order of NB_ADD ... NB_INPLACE_XOR. Each returns a new reference,
// or nullptr with an error set.
extern const binaryfunc binary_functions[26];

}  // namespace vesta::capture
