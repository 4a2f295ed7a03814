// Runs a frame's bytecode to see what it does. Reads of objects that existed before the trace become guards. Writes to
// them are logged and undone. A fake tensor takes the place of each tensor, and its operators are recorded. The same
// evaluator runs every Python function that is called.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "capture/python/breaks/breaks.h"
#include "capture/python/guards/guard.h"
#include "capture/python/interpreter/evaluate.h"
#include "capture/python/sources/source.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/callables.h"
#include "capture/python/tracer/symbolic_scalar.h"
#include "capture/python/tracer/undo_log.h"
#include "capture/python/values/classes.h"
#include "capture/python/values/keys.h"
#include "capture/python/values/scalar.h"
#include "vesta/capture_report.h"

namespace vesta::capture {

// What earlier calls of a segment had in a place: sizes of a tensor, or one integer. `changed`: which of them differed.
struct ShapeHistory {
  std::vector<int64_t> values;
  std::vector<bool> changed;
};
// The same of a number or text of any kind.
struct ScalarHistory {
  Object last;
  bool changed = false;
  bool asked = false;             // a trace could not do without the value: it is a constant of the variants,
  std::vector<Object> constants;  // of these, which are to stay few
};
struct ValueHistory {
  std::map<std::string, ShapeHistory> numbers;
  std::map<std::string, ScalarHistory> scalars;
};

struct BreakSite {
  Reason reason;
  UserLine where;               // the innermost Python line
  std::vector<UserLine> stack;  // from the root frame's line to where's caller
  bool needs_gradients = false;
  bool wants_value = false;  // of a number that changes: trace again with the value as a constant
};

struct IntegerRead {
  int source;
  int64_t value;
};

// The line of an instruction, or the first of the function where it has none.
UserLine user_line(PyCodeObject* code, int position);

// To track it is to guard its identity or its value.
bool is_guarded_when_tracked(PyObject* x);

class Tracer final : public Operations {
 public:
  struct Settings {
    ValueHistory* history = nullptr;
    std::optional<bool> dynamic;
    bool symbols = true;         // integers and sizes that change may be symbolic
    bool whole = false;          // a break is an error: rather one more constant
    bool gradients = false;      // trace what autograd would record
    bool says_compiling = true;  // torch.compiler.is_compiling(), as the program is told
    int stop_at = -1;            // the count of instructions of the root frame before which to stop; -1: none
    int64_t most_instructions = 20'000'000;
  };
  Tracer(Frame* root, const Settings& settings);
  ~Tracer() override;

  // The root frame's slots as the program sees them. To be called once before the evaluation.
  bool begin();

  // ---- what the trace found
  SourceTable sources;
  std::vector<Guard> guards;
  std::vector<ClassLookup> lookups;
  UndoLog log;
  std::vector<IntegerRead> integers;
  // Of functions of functools.lru_cache, which count them: results that were there.
  struct CachedCall {
    Object function, arguments, keywords;
  };
  std::vector<CachedCall> cached_calls;
  bool aborted() const override { return aborted_; }
  const BreakSite& break_site() const { return site_; }
  // Of the instruction at work: "model.py:17".
  std::string line() const;
  int root_count() const { return root_count_; }          // instructions of the root frame begun
  int entered_frames() const { return entered_frames_; }  // of Python functions, executed by the trace
  // The count at which an object of the root frame was made, or -1.
  int born(PyObject* x) const;
  // The count of the instruction whose exception a handler of the root frame is at work on, or -1.
  int raised_at() const { return raised_at_; }
  // The real tensor that a fake tensor stands for; nullptr for others. Borrowed.
  PyObject* real_of(PyObject* fake) const;
  void guard(Check check, int source, PyObject* expected = nullptr, int64_t number = 0);
  // Guards for an object that only an epilogue reads.
  int source_of(PyObject* x) const { return sources.find(x); }
  // The slot was not written: it holds what the frame has there, whatever that is in a later call.
  bool is_entry_value(int slot) const;
  // The program asked whether it is being compiled.
  bool asked_compiling() const { return asked_compiling_; }
  // The source of the int that a symbolic one stands for, or -1.
  int symbol_source(PyObject* x) const;
  // A function, cell or class that the trace made.
  bool is_made(PyObject* x) const { return made_.contains(x); }
  void made(PyObject* x) override;
  int changes(PyObject* x) override;
  int hashes(PyObject* key) override;
  // All items become known, for C code that reads them as they are; `depth`: containers in containers too.
  bool track_contents(PyObject* container, int depth);
  // A tuple or frozenset among the constants of code that ran: always the same object.
  bool is_code_constant(PyObject* x) const { return code_constants_.contains(x); }

  // A context variable that is not what it was before the trace, by the count of the instruction that set it; or -1.
  int changed_context() const;
  // Context variables are what they were.
  void restore_contexts();

  // Ends the trace: nullptr with an error set. The first reason stays.
  PyObject* graph_break(Break why, std::string_view first = {}, std::string_view second = {});
  PyObject* graph_break(Reason why);
  // Nothing more is recorded, for no reason of the program's.
  void end() { aborted_ = true; }
  // The same, because the program needs the value of a symbolic scalar: the next trace takes it as a constant.
  PyObject* specialize(PyObject* scalar);
  // What an operation (Compute, but no call) gives for symbolic scalars: another one, or a bool, which is guarded. New;
  // Py_NotImplemented if the other operand is no number, nullptr with an error set. `right`: nullptr for one operand.
  PyObject* calculate(int operation, PyObject* left, PyObject* right);
  // The source of the number that a tensor stands for in the graph, or -1.
  int number_source(PyObject* tensor) const;
  template <class F>
  void each_number_source(F&& f) const {
    for (const auto& [source, tensor] : number_tensors_) f(source);
  }
  void restart_without_symbols() { graph_break(Break::SymbolicNumber); }
  // False (the trace has ended): its state would be advanced for good.
  bool may_advance(PyObject* iterator);
  // Something failed with this operand: no error of the program's if it is a symbol.
  void note_symbols(PyObject* operand);

  // ---- Operations
  bool before(Frame* f, int position) override;
  // Signals, other threads and collections wait: they would see what is taken back.
  int pending(PyThreadState*) override { return 0; }
  void storing(Frame* f, int slot) override;
  bool is_bound(Frame* f, int slot) override;
  PyObject* load_fast(Frame* f, int slot) override;
  PyObject* load_cell(Frame* f, int slot) override;
  int store_cell(Frame* f, int slot, PyObject* value) override;
  void share_cell(Frame* f, int slot) override { cell_source(f, slot); }
  PyObject* load_global(Frame* f, PyObject* name) override;
  int store_global(Frame* f, PyObject* name, PyObject* value) override;
  PyObject* get_attr(PyObject* owner, PyObject* name) override;
  int set_attr(PyObject* owner, PyObject* name, PyObject* value) override;
  PyObject* get_item(PyObject* container, PyObject* key) override;
  int set_item(PyObject* container, PyObject* key, PyObject* value) override;
  PyObject* binary(int op, PyObject* left, PyObject* right) override;
  PyObject* unary(Unary op, PyObject* x) override;
  PyObject* compare(int op, PyObject* left, PyObject* right) override;
  int is_same(PyObject* left, PyObject* right) override;
  int is_instance(PyObject* x, PyObject* type) override;
  int contains(PyObject* container, PyObject* x) override;
  int is_true(PyObject* x) override;
  Py_ssize_t length(PyObject* x) override;
  PyObject* get_iter(PyObject* x) override;
  PyObject* next(PyObject* iterator) override;
  int unpack(PyObject* x, int before, int after, PyObject** out) override;
  PyObject* lookup_special(PyObject* obj, PyObject* name) override;
  PyObject* format(PyObject* x, PyObject* spec) override;
  PyObject* convert(PyObject* x, Conversion kind) override;
  PyObject* join(PyObject* const* pieces, int n) override;
  int extend_list(PyObject* list, PyObject* iterable) override;
  PyObject* list_to_tuple(PyObject* list) override;
  int update_set(PyObject* set, PyObject* iterable) override;
  int update_dict(PyObject* dict, PyObject* mapping) override;
  int merge_keywords(PyObject* callable, PyObject* dict, PyObject* mapping) override;
  PyObject* call(PyObject* callable, PyObject* const* args, size_t flags, PyObject* keyword_names) override;
  PyObject* call_unpacked(PyObject* callable, PyObject* args, PyObject* keywords) override;
  PyObject* import_name(Frame* f, PyObject* name, PyObject* fromlist, PyObject* level) override;
  PyObject* import_from(PyObject* module, PyObject* name) override;

  // A Python function is entered by C code or by a call of ours. False: it is torch's own, and nobody needs to look
  // into it.
  bool enter(Frame* f);
  // The instruction that is being run: to be put back when a function that it entered has been left.
  struct Place {
    Frame* frame;
    int position;
  };
  Place place() const { return {where_, where_position_}; }
  void set_place(Place p) {
    where_ = p.frame;
    where_position_ = p.position;
  }

 private:
  // ---- guards
  void guard_class(PyTypeObject* type, PyObject* name = nullptr);
  // The methods by which operators and torch's C code ask a tensor: those its class has, and those it lacks.
  void guard_tensor_class(PyTypeObject* type);
  // The methods by which C code asks an object of a Python class: those it has, and those it lacks.
  void guard_methods(PyObject* x, std::initializer_list<std::string> names);
  // The value of a place: what the program gets for it; a new reference, nullptr with an error set.
  PyObject* track(PyObject* x, int source);
  PyObject* track_tensor(PyObject* real, int source);
  PyObject* track_int(PyObject* x, int source);
  // A constant, or a symbolic scalar if the place has had too many constants.
  PyObject* track_scalar(PyObject* x, int source);
  // Whether the place may hold one more constant.
  bool is_constant(ScalarHistory& history, PyObject* x);
  // A 0-d tensor in the place of a symbolic scalar, for an operation with `other`; nullptr with an error set.
  PyObject* number_as_tensor(PyObject* scalar, PyObject* other);
  int operand_source(PyObject* number);
  PyObject* symbolic_scalar(PyObject* value, int source);
  PyObject* computed(int source, PyObject* result);
  // What a function of numbers gives for symbolic scalars; nullptr without an error: it is no such function.
  PyObject* call_with_symbolic_scalars(const Callable& known, PyObject* callable, PyObject* const* args, Py_ssize_t n,
                                       PyObject* keyword_names);
  bool track_slice(PyObject* slice, int source);
  // The object that a C function is bound to, the function itself being fixed.
  bool track_self(PyObject* callable);
  // An object whose identity is fixed by guards there are: a class's attribute, a constant of the code.
  PyObject* track_constant(PyObject* x);
  // An object that C code gives: a fake tensor for a tensor that has one. Steals and returns.
  PyObject* wrap(PyObject* x);
  // A list or tuple with the fake tensors of its tensors: for functions that read values without the dispatcher.
  Object with_fake_tensors(PyObject* x, int depth);
  std::string place(int source) const;
  // The same for what is remembered from trace to trace: two constants may have one text.
  std::string place_key(int source) const;
  // The source of the cell in a slot, or -1 for one that the trace made.
  int cell_source(Frame* f, int slot);
  // Cells of a function that was there before have their places in its closure.
  void know_closure(PyObject* function);

  // ---- contents of containers
  bool track_length(PyObject* container);
  // For who passes its items on and reads none: a copy of a tuple, list or dict, whose numbers may be symbols. Anything
  // else is read as an operand. Nothing where the trace has ended.
  Object unpacked(PyObject* container);
  bool track_items(PyObject* container, int depth);
  // A list or tuple that is new, or all of which was read for a write to it: one item is read as it is.
  bool has_known_items(PyObject* container, PyObject* key) const;
  bool track_state(PyObject* instance);
  // False (the trace has ended) if C code cannot be let at it.
  bool operand(PyObject* x);
  // The container as it was before the trace wrote to it; a new reference.
  Object original(PyObject* container);

  // ---- attributes
  PyObject* instance_attr(PyObject* owner, PyObject* name);
  PyObject* module_attr(PyObject* owner, PyObject* name);
  PyObject* class_attr(PyObject* owner, PyObject* name);
  void know_class_dict(PyTypeObject* type);
  PyObject* tensor_attr(PyObject* owner, PyObject* name);
  PyObject* super_attr(PyObject* owner, PyObject* name);
  PyObject* function_attr(PyObject* owner, PyObject* name);
  PyObject* bind(PyObject* attribute, PyObject* owner, PyTypeObject* type);
  PyObject* read_dict(PyObject* dict, int source, PyObject* key, bool* found);  // new; guards what it reads
  // What `getattr`, torch.nn.Module's own __getattr__, does: a parameter, buffer or module of that name. Not found: the
  // function itself is to be called, which raises or goes on in another way.
  PyObject* item_of_module(PyObject* module, PyObject* name, PyObject* getattr, bool* found);
  // What a defaultdict that was there before makes of a key that it has not.
  PyObject* missing_item(PyObject* dict, int source, PyObject* key);
  int instance_set_attr(PyObject* owner, PyObject* name, PyObject* value);
  int dict_source(PyObject* owner);

  // Of the globals or builtins of a frame.
  int namespace_source(Frame* f, PyObject* dict);
  // What a relative import means in this frame; none if that cannot be said.
  Object absolute_name(Frame* f, PyObject* name, long up);

  // ---- calls
  PyObject* call_known(const Callable& known, PyObject* callable, PyObject* const* args, Py_ssize_t n,
                       PyObject* keyword_names);
  // What a class statement comes to; `build`: builtins.__build_class__.
  PyObject* build_class(PyObject* build, PyObject* const* args, Py_ssize_t n, PyObject* names);
  // False, the trace having ended: `x` is a class that the trace made.
  bool may_read_class(PyObject* x);
  PyObject* call_special(Special special, PyObject* callable, PyObject* self, PyObject* const* args, Py_ssize_t n,
                         PyObject* keyword_names, bool* done);
  // The module that asks whether it is being compiled, and what it is told.
  std::string_view asking_module() const;
  bool is_compiling();
  bool is_dynamo_compiling() const;
  // The kernel of a higher-order operator that runs in eager below gradients and modes; args[0] is the operator.
  PyObject* call_higher_order(PyObject* const* args, Py_ssize_t n, PyObject* keyword_names);
  PyObject* call_plainly(PyObject* callable, PyObject* const* args, Py_ssize_t n, PyObject* keyword_names);
  // False (the trace has ended): a call that makes a weak reference, which sees the trace's objects come and go.
  bool may_refer(PyObject* callable, PyObject* const* args, Py_ssize_t n);
  PyObject* call_with_numbers(PyObject* callable, PyObject* const* args, Py_ssize_t n, PyObject* keyword_names);
  bool writes(PyObject* container, UndoLog::Writes kind);
  // One key of a dict is about to be written, or deleted.
  bool writes_key(PyObject* dict, PyObject* key, bool deletes);
  // torch.tensor(...) with the dtype and device of `like` where the arguments name none: a tensor, or a class of
  // tensors.
  PyObject* tensor_of_data(PyObject* like, PyObject* const* args, Py_ssize_t n, PyObject* keyword_names);
  // What the legacy constructors make, of sizes or of data; nullptr without an error: of neither.
  PyObject* tensor_of_integers(PyObject* const* args, Py_ssize_t n, PyObject* keyword_names);
  PyObject* legacy_tensor(PyObject* like, PyObject* const* args, Py_ssize_t n);
  // An argument by whose value or identity a cached function keeps its results.
  bool guard_cache_key(PyObject* x, bool of_library);
  PyObject* call_cached(PyObject* function, PyObject* const* args, Py_ssize_t n, PyObject* keyword_names);
  bool update_keys(PyObject* dict, PyObject* mapping);
  PyObject* context_value(PyObject* variable, PyObject* otherwise);
  PyObject* set_context(PyObject* method, PyObject* const* args, Py_ssize_t n, PyObject* variable, bool sets);
  // An argument that is itself a C function (a key, a callback) must be known too.
  bool argument(PyObject* x);
  PyObject* finish_call(PyObject* result);
  // "<C object at 0x...>": where an object is, is a fact of that object, and nothing that can be said of a new one.
  bool may_tell(PyObject* text);
  bool is_place_key(PyObject* x) const { return is_scalar(x) || (sources.find(x) >= 0 && !is_hashed_by_program(x)); }
  bool guard_address(PyObject* x);
  bool guard_hash(PyObject* x);  // its hash may be made of addresses
  // Of an object that is hashed or compared: what its hash and its equality are made of, in tuples and lists as well.
  bool guard_by_value(PyObject* x);
  bool guard_by_value(PyObject* x, int depth);
  bool guard_comparison(PyObject* a, PyObject* b);
  // Those of a function written in C that looks for them or keeps them as keys.
  bool guard_arguments(PyObject* f, PyObject* self, PyObject* const* args, Py_ssize_t n);
  // The same for a result that is a number, -1 being a failure.
  template <class T>
  T finish_status(T status) {
    if (!aborted_ && trace_failure().empty()) return status;
    finish_call(nullptr);
    return -1;
  }

  void note_code(PyCodeObject* code);
  // Its code and defaults, once.
  void guard_function(PyObject* function);
  void guard_code(PyObject* function, int source);
  // A real tensor whose properties are read becomes an input of the graph, which checks them at every call.
  bool lift(PyObject* tensor);
  void note_constant(PyObject* x);
  // What a check of the class of x is to be asked of: an int, the tensor that was given, x itself.
  Object held_by_program(PyObject* x) const;
  // How a class, or each of a tuple of them, says what its instances are.
  void guard_class_check(PyObject* classes);
  // Ints in place of symbolic ones, in tuples, lists and dicts too (those are copied); a new reference.
  PyObject* plain(PyObject* x, int depth = 4);

  // Of a trace that has ended: nullptr with an error set.
  static PyObject* stopped();
  int fail(Break why, std::string_view first = {}, std::string_view second = {}) {
    graph_break(why, first, second);
    return -1;
  }
  static Break break_of(const Callable& refused) {
    return refused.special == Special::ViewRelation ? Break::ViewRelation : Break::UntraceableFunction;
  }

  Frame* const root_;
  const Settings settings_;
  std::vector<PyObject*> entry_;                         // the root's slots and stack at its begin, kept by `sources`
  std::vector<bool> tracked_, stored_;                   // by slot of the root
  std::unordered_map<PyObject*, int> tracked_contents_;  // to which depth; kept by `sources`
  std::unordered_map<PyObject*, PyObject*> fake_of_, real_of_;  // kept by `sources`
  std::unordered_map<PyObject*, int> born_;
  std::unordered_set<std::tuple<Check, int, PyObject*, int64_t>, PlaceHash> guarded_;
  std::unordered_set<std::tuple<PyTypeObject*, PyObject*>, PlaceHash> looked_up_;
  std::unordered_map<int, Object> symbolic_;  // source: its SymInt
  std::unordered_map<int, std::string> symbolic_scalar_places_;
  struct NumberTensor {
    Object real, fake;
  };
  std::unordered_map<int, NumberTensor> number_tensors_;  // by source
  int computed_ = 0;
  std::unordered_map<PyObject*, Object> made_;
  std::unordered_set<PyObject*> code_constants_;
  struct ContextWrite {
    Object variable, before, token;  // of its first write
    int count;
  };
  std::vector<ContextWrite> contexts_;
  std::unordered_set<PyCodeObject*> noted_;
  std::unordered_set<PyObject*> guarded_functions_;
  std::unordered_set<PyTypeObject*> tensor_classes_;
  Frame* where_ = nullptr;
  int where_position_ = 0;
  PyCodeObject* asking_ = nullptr;  // of the instruction that is being executed
  size_t size_guards_ = 0;          // of the trace, when it began
  int64_t instructions_ = 0;
  int root_count_ = 0, entered_frames_ = 0;
  int raised_at_ = -1;
  bool asked_compiling_ = false;
  bool aborted_ = false;
  bool exact_ = false;  // what is tracked is read by C code: no symbols, no iterators
  BreakSite site_;
};

}  // namespace vesta::capture
