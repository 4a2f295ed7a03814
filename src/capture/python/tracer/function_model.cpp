#include "capture/python/tracer/function_model.h"

#include "capture/python/functions/compilers.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture {
namespace {

// Dynamo's tables of modules by their ids, and the class that PyTorch makes for each torch.autograd.Function: a program
// sees none of it.
bool is_bookkeeping(PyCodeObject* code) {
  for (const char* name : {"GenerationTracker.tag", "_GenerationTracker.tag",  // torch 2.15
                           "ExactWeakKeyDictionary.__setitem__.<locals>.<lambda>", "FunctionMeta.__init__"})
    if (PyUnicode_CompareWithASCIIString(code->co_qualname, name) == 0) return true;
  return false;
}

}  // namespace

void FunctionModel::note_code(PyCodeObject* code) {
  if (!noted_.insert(code).second) return;
  t_.sources.keep(reinterpret_cast<PyObject*>(code));
  for (PyObject* x : span_of(code->co_consts)) note_constant(x);
}

void FunctionModel::note_constant(PyObject* x) {
  if (!PyTuple_CheckExact(x) && !PyFrozenSet_CheckExact(x)) return;
  t_.guards.add_identity(x);  // the epilogue takes the object at another source for the constant
  constants_.insert(x);
  for (Py_ssize_t i = 0; PyTuple_CheckExact(x) && i < PyTuple_GET_SIZE(x); ++i) note_constant(PyTuple_GET_ITEM(x, i));
}

void FunctionModel::guard_code(PyObject* f, int source) {
  PyObject* globals = t_.sources.keep(PyFunction_GET_GLOBALS(f));
  t_.guards.add(Check::Code, source, PyFunction_GET_CODE(f), reinterpret_cast<int64_t>(globals));
}

void FunctionModel::guard(PyObject* f) {
  const int source = t_.sources.find(f);
  if (source < 0 || !guarded_.insert(f).second) return;
  guard_code(f, source);
  for (const auto& [kind, part] : {std::pair{SourceKind::Defaults, PyFunction_GET_DEFAULTS(f)},
                                   std::pair{SourceKind::KwDefaults, PyFunction_GET_KW_DEFAULTS(f)}}) {
    const int s = t_.sources.add(kind, source);
    if (!part) {
      t_.guards.add(Check::Absent, s);
      continue;
    }
    t_.tracker.note(part, s);
    t_.containers.track_contents(part, 1);
  }
}

void FunctionModel::know_closure(PyObject* function) {
  const int source = t_.sources.find(function);
  PyObject* closure = PyFunction_Check(function) ? PyFunction_GET_CLOSURE(function) : nullptr;
  if (source < 0 || !closure) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(closure); ++i)
    if (t_.sources.find(PyTuple_GET_ITEM(closure, i)) < 0)
      t_.sources.know(PyTuple_GET_ITEM(closure, i),
                      t_.sources.add(SourceKind::ClosureCell, source, static_cast<int>(i)));
}

bool FunctionModel::enter(Frame* f) {
  PyCodeObject* code = code_of(f);
  ++entered_frames_;
  if (is_bookkeeping(code)) return false;
  if (code->co_argcount > 0 && slot(f, 0) && is_symbolic(slot(f, 0))) {
    const UserLine line = user_line(code, 0);
    for (const char* text : {"__repr__", "__str__", "__format__", "__hash__"})
      if (PyUnicode_CompareWithASCIIString(code->co_name, text) == 0) t_.graph_break(Break::SymbolicNumber);
    if (line.file.ends_with("sym_node.py") || line.function.starts_with("Sym")) return false;
  }
  if (is_code_of_compiler(code)) {
    t_.graph_break(Break::CompilerEntered, user_line(code, 0).function);
    return true;
  }
  note_code(code);
  PyObject* function = function_of(f);
  if (!function || !PyFunction_Check(function)) return true;
  if (!t_.made.contains(function)) {
    t_.tracker.note_constant(function);  // C code has found it in a class
    guard(function);
    know_closure(function);
  }
  // C code calls a special method through a slot of the class: which function the name stands for is a fact of the
  // class.
  const Py_ssize_t n = PyUnicode_GET_LENGTH(code->co_name);
  if (code->co_argcount > 0 && n > 4 && PyUnicode_READ_CHAR(code->co_name, 0) == '_' &&
      PyUnicode_READ_CHAR(code->co_name, 1) == '_') {
    PyObject* self = slot(f, 0);
    if (self && !is_tensor(self)) t_.guards.add_class(Py_TYPE(self), code->co_name);
  }
  return true;
}

}  // namespace vesta::capture
