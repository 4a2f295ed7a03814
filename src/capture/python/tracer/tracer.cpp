#include "capture/python/tracer/tracer.h"

#include <fmt/format.h>
#include <opcode.h>

#include <algorithm>

#include "capture/python/functions/code_origin.h"
#include "capture/python/functions/compilers.h"
#include "capture/python/weak_references.h"

namespace vesta::capture {
namespace {

// torch.utils.weak drops what it knows of a tensor by this function. PyTorch's tables of tensors (one more with every
// program that AOTAutograd compiles) have no other way to tell that one is gone.
bool is_weak_table(PyObject* callback) {
  if (!callback || !PyFunction_Check(callback)) return false;
  static PyObject* const module = PyUnicode_InternFromString("torch.utils.weak");
  PyObject* own = reinterpret_cast<PyFunctionObject*>(callback)->func_module;
  return own && PyUnicode_Check(own) && PyUnicode_Compare(own, module) == 0;
}

bool is_told_of(PyObject* x) {
  auto* reference = reinterpret_cast<PyWeakReference*>(*PyObject_GET_WEAKREFS_LISTPTR(x));
  while (reference && (is_weak_table(reference->wr_callback) || WeakReferences::is_one(reference)))
    reference = reference->wr_next;
  return reference != nullptr;
}

// Somebody is told when it goes away, which the trace, that keeps it, would put off.
bool is_missed(PyObject* x, int depth = 2) {
  PyTypeObject* type = Py_TYPE(x);
  if (is_tensor(x)) {
    PyObject** attributes = depth > 0 ? _PyObject_GetDictPtr(x) : nullptr;
    Py_ssize_t at = 0;
    PyObject* value = nullptr;
    while (attributes && *attributes && PyDict_Next(*attributes, &at, nullptr, &value))
      if (is_missed(value, depth - 1)) return true;
    return is_told_of(x);
  }
  if (PyGen_CheckExact(x)) return true;  // its `finally` blocks
  static PyObject* const del = PyUnicode_InternFromString("__del__");
  if (is_python_class(type) && _PyType_Lookup(type, del)) return true;
  if (PyType_SUPPORTS_WEAKREFS(type) && !PyType_Check(x) && is_told_of(x)) return true;
  // What goes with a list.
  constexpr Py_ssize_t kMostItems = 1000;
  if (depth == 0 || !(PyList_CheckExact(x) || PyTuple_CheckExact(x))) return false;
  for (Py_ssize_t i = 0; i < std::min(PySequence_Fast_GET_SIZE(x), kMostItems); ++i)
    if (is_missed(PySequence_Fast_GET_ITEM(x, i), depth - 1)) return true;
  return false;
}

// What an instruction of a frame takes away from a variable or the stack; nullptr: nothing.
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

}  // namespace

UserLine user_line(PyCodeObject* code, int position) {
  auto text = [](PyObject* s) {
    const char* p = s && PyUnicode_Check(s) ? PyUnicode_AsUTF8(s) : nullptr;
    return std::string(p ? p : "");
  };
  const int line = line_of(code, position);
  return {text(code->co_filename), line > 0 ? line : code->co_firstlineno, text(code->co_qualname)};
}

Tracer::Tracer(Frame* root, const Settings& settings) : root_(root), settings_(settings) {
  sources.keep(reinterpret_cast<PyObject*>(code_of(root)));
}

Tracer::~Tracer() = default;

bool Tracer::begin() {
  const int locals = code_of(root_)->co_nlocalsplus, all = locals + depth_of(root_);
  entry_.resize(static_cast<size_t>(all));
  tracked_.assign(static_cast<size_t>(all), false);
  stored_.assign(static_cast<size_t>(all), false);
  for (int i = 0; i < all; ++i) {
    entry_[static_cast<size_t>(i)] = slot(root_, i);
    if (slot(root_, i)) sources.keep(slot(root_, i));
  }
  sources.know(function_of(root_), sources.add(SourceKind::Function, -1));
  know_closure(function_of(root_));
  // Inner functions reach the frame's cells by closures of their own.
  constexpr int cell_or_free = 0x40 | 0x80;
  const char* kinds = PyBytes_AS_STRING(code_of(root_)->co_localspluskinds);
  for (int i = 0; i < locals; ++i)
    if (PyObject* x = slot(root_, i); x && (kinds[i] & cell_or_free) != 0 && PyCell_Check(x) && sources.find(x) < 0)
      sources.know(x, sources.add(SourceKind::Local, -1, i));
  note_code(code_of(root_));
  // Instructions take values from the stack without asking.
  for (int i = locals; i < all; ++i) {
    if (!slot(root_, i)) continue;
    PyObject* x = track(slot(root_, i), sources.add(SourceKind::Local, -1, i));
    if (!x) return false;
    Py_SETREF(slot(root_, i), x);
    tracked_[static_cast<size_t>(i)] = true;
  }
  return true;
}

bool Tracer::is_entry_value(int i) const {
  return i < static_cast<int>(entry_.size()) && !stored_[static_cast<size_t>(i)];
}

PyObject* Tracer::graph_break(Reason why) {
  if (!aborted_) {
    aborted_ = true;
    site_.reason = std::move(why);
    site_.needs_gradients = trace_needs_gradients();
    if (where_) {
      site_.where = user_line(code_of(where_), where_position_);
      for (Frame* f = where_; f && f != root_;) {
        f = caller_of(f);
        if (f) site_.stack.insert(site_.stack.begin(), user_line(code_of(f), executing(f)));
      }
    }
  }
  return stopped();
}

PyObject* Tracer::graph_break(Break why, std::string_view first, std::string_view second) {
  return graph_break(aborted_ ? Reason() : reason_for(why, first, second));
}

PyObject* Tracer::stopped() {
  PyErr_SetString(PyExc_RuntimeError, "a trace of Vesta's has ended");
  return nullptr;
}

std::string Tracer::line() const {
  if (!where_) return {};
  // Of the program's own code, if it is on the way here: a module's forward() rather than torch.nn's.
  Frame* f = where_;
  while (f && f != root_ && is_installed_package(code_of(f))) f = caller_of(f);
  if (!f || is_installed_package(code_of(f))) f = where_;
  const UserLine at = user_line(code_of(f), f == where_ ? where_position_ : executing(f));
  return at.file + ":" + std::to_string(at.line);
}

bool Tracer::before(Frame* f, int position) {
  if (const size_t n = size_guard_count(); n != size_guards_) {
    if (asking_ && n > size_guards_) {
      const UserLine line = user_line(asking_, where_position_);
      say_who_asked(size_guards_, line.file + ":" + std::to_string(line.line));
    }
    size_guards_ = n;
  }
  asking_ = code_of(f);
  where_ = f;
  where_position_ = position;
  if (f == root_) {
    if (root_count_ == settings_.stop_at) return false;
    int units = 0;
    const unsigned char* code = pristine_code(code_of(f), &units);
    if (code[2 * position] == PUSH_EXC_INFO && raised_at_ < 0) raised_at_ = root_count_ - 1;
    if (code[2 * position] == POP_EXCEPT) raised_at_ = -1;
    ++root_count_;
  }
  {
    int units = 0;
    const unsigned char* code = pristine_code(code_of(f), &units);
    const int oparg = code[2 * position + 1];
    const int opcode = code[2 * position];
    const bool from_slot = f == root_ && (opcode == STORE_FAST || opcode == DELETE_FAST) && is_entry_value(oparg);
    PyObject* x = dropped(f, opcode, oparg);
    if (PyObject* real = x ? real_of(x) : nullptr) x = real;
    if (x && (from_slot || (sources.find(x) >= 0 && sources[sources.find(x)].kind == SourceKind::Local)) &&
        is_missed(x))
      graph_break(Break::LastReference, Py_TYPE(x)->tp_name);
    if (code[2 * position] == RAISE_VARARGS && oparg > 0) {
      PyObject* x = peek(f, oparg);
      // Raising it would write its traceback.
      if (x && PyExceptionInstance_Check(x) && sources.find(x) >= 0) graph_break(Break::OuterExceptionRaised);
    }
  }
  if (++instructions_ > settings_.most_instructions && !aborted_) {
    graph_break(Break::LongTrace);
    aborted_ = true;
  }
  return true;
}

void Tracer::note_code(PyCodeObject* code) {
  if (!noted_.insert(code).second) return;
  sources.keep(reinterpret_cast<PyObject*>(code));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); ++i) {
    note_constant(PyTuple_GET_ITEM(code->co_consts, i));
  }
}

void Tracer::note_constant(PyObject* x) {
  if (!PyTuple_CheckExact(x) && !PyFrozenSet_CheckExact(x)) return;
  // Known by another way, too: an epilogue takes it for the constant.
  if (const int source = sources.find(x); source >= 0 && sources[source].kind != SourceKind::Constant)
    guard(Check::Is, source, x);
  code_constants_.insert(x);
  for (Py_ssize_t i = 0; PyTuple_CheckExact(x) && i < PyTuple_GET_SIZE(x); ++i) note_constant(PyTuple_GET_ITEM(x, i));
}

void Tracer::guard_code(PyObject* f, int source) {
  // Its globals are read as those of this function, whichever function of the code comes.
  PyObject* globals = sources.keep(PyFunction_GET_GLOBALS(f));
  guard(Check::Code, source, PyFunction_GET_CODE(f), reinterpret_cast<int64_t>(globals));
}

void Tracer::guard_function(PyObject* f) {
  const int source = sources.find(f);
  if (source < 0 || !guarded_functions_.insert(f).second) return;
  guard_code(f, source);
  for (const auto& [kind, part] : {std::pair{SourceKind::Defaults, PyFunction_GET_DEFAULTS(f)},
                                   std::pair{SourceKind::KwDefaults, PyFunction_GET_KW_DEFAULTS(f)}}) {
    const int s = sources.add(kind, source);
    if (!part) {
      guard(Check::Absent, s);
      continue;
    }
    Py_XDECREF(track(part, s));
    track_contents(part, 1);
  }
}

namespace {

// torch.autograd.grad and backward with create_graph: a compiled part of a program has no second derivative.
bool asks_for_second_gradients(Frame* f) {
  PyCodeObject* code = code_of(f);
  if (PyUnicode_CompareWithASCIIString(code->co_name, "grad") != 0 &&
      PyUnicode_CompareWithASCIIString(code->co_name, "backward") != 0)
    return false;
  if (!user_line(code, 0).file.ends_with("torch/autograd/__init__.py")) return false;
  for (int i = 0; i < code->co_argcount + code->co_kwonlyargcount; ++i)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_localsplusnames, i), "create_graph") == 0)
      return slot(f, i) == Py_True;
  return false;
}

}  // namespace

bool Tracer::enter(Frame* f) {
  PyCodeObject* code = code_of(f);
  ++entered_frames_;
  // Dynamo's notes on new modules, by their ids, and what crosses them out when one goes: the program sees none of it.
  for (const char* note : {"GenerationTracker.tag", "_GenerationTracker.tag",  // torch 2.15
                           "ExactWeakKeyDictionary.__setitem__.<locals>.<lambda>",
                           "FunctionMeta.__init__"})  // makes a class of its own for each torch.autograd.Function
    if (PyUnicode_CompareWithASCIIString(code->co_qualname, note) == 0) return false;
  if (code->co_argcount > 0 && slot(f, 0) && is_symbolic(slot(f, 0))) {
    const UserLine line = user_line(code, 0);
    for (const char* text : {"__repr__", "__str__", "__format__", "__hash__"})
      if (PyUnicode_CompareWithASCIIString(code->co_name, text) == 0) restart_without_symbols();
    if (line.file.ends_with("sym_node.py") || line.function.starts_with("Sym")) return false;
  }
  if (is_code_of_compiler(code)) {
    graph_break(Break::CompilerEntered, user_line(code, 0).function);
    return true;
  }
  if (asks_for_second_gradients(f)) graph_break(Break::SecondGradients);
  note_code(code_of(f));
  PyObject* function = function_of(f);
  if (!function || !PyFunction_Check(function)) return true;
  if (!is_made(function)) {
    // Found by C code in a class, or known since: what it is made of is a fact of its own.
    if (sources.find(function) < 0) Py_XDECREF(track_constant(function));
    guard_function(function);
    know_closure(function);
  }
  // A method that C code found by a class's slot: the name it stands for is a fact about the class.
  const Py_ssize_t n = PyUnicode_GET_LENGTH(code->co_name);
  if (code->co_argcount > 0 && n > 4 && PyUnicode_READ_CHAR(code->co_name, 0) == '_' &&
      PyUnicode_READ_CHAR(code->co_name, 1) == '_') {
    PyObject* self = slot(f, 0);
    if (self && !is_tensor(self)) guard_class(Py_TYPE(self), code->co_name);
  }
  return true;
}

void Tracer::know_closure(PyObject* function) {
  const int source = sources.find(function);
  PyObject* closure = PyFunction_Check(function) ? PyFunction_GET_CLOSURE(function) : nullptr;
  if (source < 0 || !closure) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(closure); ++i)
    if (sources.find(PyTuple_GET_ITEM(closure, i)) < 0)
      sources.know(PyTuple_GET_ITEM(closure, i), sources.add(SourceKind::ClosureCell, source, static_cast<int>(i)));
}

int Tracer::born(PyObject* x) const {
  const auto it = born_.find(x);
  return it == born_.end() ? -1 : it->second;
}

PyObject* Tracer::real_of(PyObject* x) const {
  const auto it = real_of_.find(x);
  return it == real_of_.end() ? nullptr : it->second;
}

PyObject* Tracer::fake_or_itself(PyObject* x) const {
  const auto it = fake_of_.find(x);
  return it == fake_of_.end() ? x : it->second;
}

// ---- guards

void Tracer::guard(Check check, int source, PyObject* expected, int64_t number) {
  if (!guarded_.emplace(check, source, expected, number).second) return;
  Guard g{check, source, expected ? sources.keep(expected) : nullptr, number};
  if (where_) {
    g.asked_in = code_of(where_);
    sources.keep(reinterpret_cast<PyObject*>(g.asked_in));
    g.position = where_position_;
  }
  guards.push_back(g);
}

void Tracer::guard_class(PyTypeObject* type, PyObject* name) {
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return;
  if (!looked_up_.emplace(type, name).second) return;
  if (name) {
    PyObject* found = _PyType_Lookup(type, name);
    sources.keep(name);
    if (found) sources.keep(found);
    lookups.push_back({type, name, found});
  } else if (writes_by_operators(type)) {
    graph_break(Break::WritingOperator, type->tp_name);
  }
  guard(Check::Class, -1, reinterpret_cast<PyObject*>(type));
}

std::string Tracer::place(int source) const {
  return sources.text(source, reinterpret_cast<PyObject*>(code_of(root_)));
}

std::string Tracer::place_key(int source) const {
  int root = source;
  while (sources[root].parent >= 0) root = sources[root].parent;
  if (sources[root].kind != SourceKind::Constant) return place(source);
  return fmt::format("{} of {}", place(source), static_cast<const void*>(sources[root].key));
}

int Tracer::symbol_source(PyObject* x) const {
  for (const auto& [source, symbol] : symbolic_)
    if (symbol.get() == x) return source;
  return -1;
}

void Tracer::made(PyObject* x) {
  made_.try_emplace(x, Object::share(x));
  if (where_ != root_ || !PyCell_Check(x) || !PyCell_GET(x)) return;
  // An argument that inner functions share moves into its cell.
  for (int i = 0; i < code_of(root_)->co_nlocalsplus; ++i) {
    if (slot(root_, i) != x || PyCell_GET(x) != entry_[static_cast<size_t>(i)]) continue;
    PyObject* touched = track(PyCell_GET(x), sources.add(SourceKind::Local, -1, i));
    if (!touched) return;
    PyCell_Set(x, touched);
    Py_DECREF(touched);
  }
}

// ---- variables

void Tracer::storing(Frame* f, int i) {
  if (f == root_) stored_[static_cast<size_t>(i)] = true;
}

bool Tracer::is_bound(Frame* f, int i) {
  const bool bound = slot(f, i) != nullptr;
  if (f == root_ && is_entry_value(i))
    guard(bound ? Check::Present : Check::Absent, sources.add(SourceKind::Local, -1, i));
  return bound;
}

PyObject* Tracer::load_fast(Frame* f, int i) {
  PyObject* x = slot(f, i);
  if (!x) return is_bound(f, i), nullptr;
  if (f == root_ && is_entry_value(i) && !tracked_[static_cast<size_t>(i)]) {
    PyObject* touched = track(x, sources.add(SourceKind::Local, -1, i));
    if (!touched) return nullptr;
    tracked_[static_cast<size_t>(i)] = true;
    if (touched != x) {
      Py_SETREF(slot(f, i), Py_NewRef(touched));
    }
    return touched;
  }
  return Py_NewRef(x);
}

int Tracer::cell_source(Frame* f, int i) {
  PyObject* cell = slot(f, i);
  if (!cell || !PyCell_Check(cell)) return -1;
  int source = sources.find(cell);
  if (source >= 0) return source;
  PyCodeObject* code = code_of(f);
  const int free = i - (code->co_nlocalsplus - code->co_nfreevars);
  if (f == root_ && i < static_cast<int>(entry_.size()) && cell == entry_[static_cast<size_t>(i)]) {
    source = sources.add(SourceKind::Local, -1, i);
  } else if (free >= 0 && born(cell) < 0 && !is_made(cell)) {
    // A cell of a function that was there before has its place in that function's closure.
    const int function = sources.find(function_of(f));
    if (function >= 0) source = sources.add(SourceKind::ClosureCell, function, free);
  }
  if (source < 0) return -1;
  guard(Check::Type, source, reinterpret_cast<PyObject*>(&PyCell_Type));
  sources.know(cell, source);
  return source;
}

PyObject* Tracer::load_cell(Frame* f, int i) {
  PyObject* cell = slot(f, i);
  if (!cell) return nullptr;
  const int source = cell_source(f, i);
  if (source < 0) return Py_XNewRef(PyCell_GET(cell));
  PyObject* now = PyCell_GET(cell);
  const UndoLog::Entry* e = log.find(cell);
  if (e && e->before.get() != now) return Py_XNewRef(now);
  const int contents = sources.add(SourceKind::CellContents, source);
  if (!now) {
    guard(Check::Absent, contents);
    return nullptr;
  }
  return track(now, contents);
}

int Tracer::store_cell(Frame* f, int i, PyObject* value) {
  PyObject* cell = slot(f, i);
  cell_source(f, i);  // makes it known, so that the write is seen as one to an object that was there
  if (log.cell(cell) < 0) return -1;
  return PyCell_Set(cell, value);
}

PyObject* Tracer::read_dict(PyObject* dict, int source, PyObject* key, bool* found) {
  PyObject* now = PyDict_GetItemWithError(dict, key);
  if (!now && PyErr_Occurred()) return nullptr;
  *found = now != nullptr;
  if (source < 0) return now ? wrap(Py_NewRef(now)) : nullptr;
  if (PyObject* was = log.before(dict, key); was != now) return now ? wrap(Py_NewRef(now)) : nullptr;
  const int value = sources.add(SourceKind::DictValue, source, 0, key);
  if (now) return track(now, value);
  guard(Check::Absent, value);
  return nullptr;
}

int Tracer::namespace_source(Frame* f, PyObject* dict) {
  if (const int source = sources.find(dict); source >= 0) return source;
  const int source = f == root_ ? sources.add(dict == globals_of(f) ? SourceKind::Globals : SourceKind::Builtins, -1)
                                : sources.add(SourceKind::Constant, -1, 0, dict);
  sources.know(dict, source);
  return source;
}

PyObject* Tracer::load_global(Frame* f, PyObject* name) {
  for (PyObject* dict : {globals_of(f), builtins_of(f)}) {
    if (!PyDict_Check(dict)) continue;
    bool found = false;
    PyObject* x = read_dict(dict, namespace_source(f, dict), name, &found);
    if (found || PyErr_Occurred()) return x;
  }
  return Operations::load_global(f, name);
}

int Tracer::store_global(Frame* f, PyObject* name, PyObject* value) {
  PyObject* dict = globals_of(f);
  namespace_source(f, dict);
  if (!writes_key(dict, name, value == nullptr)) return -1;
  return Operations::store_global(f, name, value);
}

}  // namespace vesta::capture
