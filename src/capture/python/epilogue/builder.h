// From the state at the end of a trace, before it is rolled back, to an Epilogue.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "capture/python/epilogue/epilogue.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture {

class EpilogueBuilder {
 public:
  EpilogueBuilder(Trace& trace, Frame* root) : trace_(trace), root_(root) {}

  // False: `blocked` is an object that cannot be rebuilt, `reason` says why.
  bool leave_by_return(PyObject* result, int position);
  bool leave_by_break(int position);

  Epilogue epilogue;
  std::vector<PyObject*> outputs;  // of the graph
  std::vector<Object> alive;       // these and other new objects, until the graph has been closed
  PyObject* blocked = nullptr;
  Reason reason;
  std::vector<std::string> effect_texts;  // what the effects write, for reports

 private:
  PyObject* code() const { return reinterpret_cast<PyObject*>(code_of(root_)); }
  void say(std::string effect) { effect_texts.push_back(std::move(effect)); }
  int value(PyObject* x);
  int described(PyObject* x);
  int add(Reconstruction r);
  int constant(PyObject* x);
  int source(int id);
  int fail(PyObject* x, Break why, std::string_view what = {});
  int container(PyObject* x);
  int dict(PyObject* x, Make make);
  int instance(PyObject* x);
  int function(PyObject* x);
  int reduced(PyObject* x);
  int struct_sequence(PyObject* x, Py_ssize_t fields);
  int bound(PyObject* x, PyObject* self);  // a method or slot written in C
  int subclass(PyObject* x, int tensor);   // as that tensor's as_subclass() makes it
  int dict_iterator(PyObject* x, const char* method);
  bool effects();
  bool effect_on(const UndoLog::Entry& e);
  bool dict_effect(int target, const UndoLog::Entry& entry);
  PyObject* keep(PyObject* x) {
    epilogue.kept.push_back(Object::share(x));
    return x;
  }

  Trace& trace_;
  Frame* root_;
  std::unordered_map<PyObject*, int> known_;
  std::unordered_set<PyObject*> closed_;  // being described, and made after their parts: none of those may hold them
  int depth_ = 0;
};

}  // namespace vesta::capture
