// Runs a frame's bytecode to see what it does: the evaluator's operations, forwarded to the rooms of a trace. The same
// evaluator runs every Python function that the frame calls. It decides nothing itself (trace.h).
#pragma once

#include "capture/python/interpreter/evaluate.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture {

class Tracer final : public Operations {
 public:
  Tracer(Frame* root, const TraceSettings& settings) : trace(root, settings) {}

  Trace trace;

  bool aborted() const override { return trace.ended(); }
  bool before(Frame* f, int position) override;
  // Signals, other threads and collections wait: they would see writes that are undone at the end.
  int pending(PyThreadState*) override { return 0; }
  void made(PyObject* x) override { trace.made.add(x); }
  void share_cell(Frame* f, int slot) override { trace.variables.cell_source(f, slot); }
  int changes(PyObject* x) override { return trace.operators.changes(x); }
  int hashes(PyObject* key) override { return trace.equality.guard_key(key) ? 0 : -1; }

  void storing(Frame* f, int slot) override { trace.variables.storing(f, slot); }
  bool is_bound(Frame* f, int slot) override { return trace.variables.is_bound(f, slot); }
  PyObject* load_fast(Frame* f, int slot) override { return trace.variables.load_fast(f, slot); }
  PyObject* load_cell(Frame* f, int slot) override { return trace.variables.load_cell(f, slot); }
  int store_cell(Frame* f, int slot, PyObject* x) override { return trace.variables.store_cell(f, slot, x); }
  PyObject* load_global(Frame* f, PyObject* name) override { return trace.variables.load_global(f, name); }
  int store_global(Frame* f, PyObject* name, PyObject* x) override { return trace.variables.store_global(f, name, x); }
  PyObject* import_name(Frame* f, PyObject* name, PyObject* fromlist, PyObject* level) override {
    return trace.variables.import_name(f, name, fromlist, level);
  }
  PyObject* import_from(PyObject* module, PyObject* name) override { return trace.variables.import_from(module, name); }

  PyObject* get_attr(PyObject* owner, PyObject* name) override { return trace.objects.get_attr(owner, name); }
  int set_attr(PyObject* owner, PyObject* name, PyObject* x) override { return trace.objects.set_attr(owner, name, x); }
  PyObject* lookup_special(PyObject* x, PyObject* name) override { return trace.objects.lookup_special(x, name); }
  int is_instance(PyObject* x, PyObject* type) override { return trace.objects.is_instance(x, type); }

  PyObject* get_item(PyObject* container, PyObject* key) override { return trace.items.get(container, key); }
  int set_item(PyObject* container, PyObject* key, PyObject* x) override { return trace.items.set(container, key, x); }
  int contains(PyObject* container, PyObject* x) override { return trace.items.contains(container, x); }
  Py_ssize_t length(PyObject* x) override { return trace.items.length(x); }
  PyObject* get_iter(PyObject* x) override { return trace.items.get_iter(x); }
  PyObject* next(PyObject* iterator) override { return trace.items.next(iterator); }
  int unpack(PyObject* x, int before, int after, PyObject** out) override {
    return trace.items.unpack(x, before, after, out);
  }
  int extend_list(PyObject* list, PyObject* iterable) override { return trace.items.extend_list(list, iterable); }
  PyObject* list_to_tuple(PyObject* list) override { return trace.items.list_to_tuple(list); }
  int update_set(PyObject* set, PyObject* iterable) override { return trace.items.update_set(set, iterable); }
  int update_dict(PyObject* dict, PyObject* mapping) override;
  int merge_keywords(PyObject* callable, PyObject* dict, PyObject* mapping) override;

  PyObject* binary(int op, PyObject* left, PyObject* right) override { return trace.operators.binary(op, left, right); }
  PyObject* unary(Unary op, PyObject* x) override { return trace.operators.unary(op, x); }
  PyObject* compare(int op, PyObject* left, PyObject* right) override {
    return trace.operators.compare(op, left, right);
  }
  int is_same(PyObject* left, PyObject* right) override { return trace.operators.is_same(left, right); }
  int is_true(PyObject* x) override { return trace.operators.is_true(x); }
  PyObject* format(PyObject* x, PyObject* spec) override { return trace.operators.format(x, spec); }
  PyObject* convert(PyObject* x, Conversion kind) override { return trace.operators.convert(x, kind); }
  PyObject* join(PyObject* const* pieces, int n) override { return trace.operators.join(pieces, n); }

  PyObject* call(PyObject* callable, PyObject* const* args, size_t flags, PyObject* names) override {
    return trace.calls.call(callable, args, PyVectorcall_NARGS(flags), names);
  }
  PyObject* call_unpacked(PyObject* callable, PyObject* args, PyObject* keywords) override {
    return trace.calls.call_unpacked(callable, args, keywords);
  }
};

}  // namespace vesta::capture
