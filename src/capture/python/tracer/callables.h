// What is known of functions written in C: what calling one reads and writes. Everything else is a graph break.
#pragma once

#include <Python.h>

#include <string>

#include "capture/python/values/classes.h"

namespace vesta::capture {

enum class Effect : unsigned char {
  Unknown,     // a break
  Reads,       // reads its arguments (what containers hold as well), gives a new object or one of theirs
  ReadsState,  // reads the instance's attributes too
  Tensors,     // an operator on tensors
  WritesSelf,  // writes its first argument, a container
  Appends,     // adds to the end of its first argument, a list
  Special,     // the tracer has its own form: see `special`
  Refused,     // a break for a reason of its own: see `reason`
  Torch,       // reads or sets state that TorchState holds
};

enum class Special : unsigned char {
  None,
  GetAttr,
  HasAttr,
  SetAttr,
  DelAttr,
  ObjectGetAttr,
  ObjectSetAttr,
  ObjectDelAttr,
  IsInstance,
  Iter,
  Next,
  Len,
  DictGet,
  DictPop,
  DictSetDefault,
  DictUpdate,
  Vars,
  Id,
  Hash,
  BuildClass,
  AutogradFunction,  // torch.autograd.Function.apply
  NumPy,             // of plain numbers, a number
  TensorNew,         // Tensor.new
  NewTensor,         // Tensor.new_tensor
  FromData,          // torch.tensor and torch.as_tensor
  Flag,              // a setting of torch's: True or False
  ContextGet,        // contextvars.ContextVar's methods
  ContextSet,
  ContextReset,
  ViewRelation,  // _base and _is_view()
  Number,        // reads, and takes symbolic numbers as they are
};

struct Callable {
  Effect effect = Effect::Unknown;
  Special special = Special::None;
  const char* reason = nullptr;
};

// The table is read from builtins and torch once. False with a Python error set.
bool load_callables();
// `callable`: a builtin function or method, a method or slot descriptor, a class.
Callable known_callable(PyObject* callable);
// Objects of this class (exactly) behave as their C code says, which reads nothing but the object itself.
bool is_known_class(PyTypeObject* type);
// One with a special method that is another one of C's, which writes: `__lshift__ = list.append`.
bool writes_by_operators(PyTypeObject* type);
// An operator as torch.ops has it: what an OpOverload or its packet calls.
bool is_torch_operator(PyObject* callable);
// Its `next` is C code's: how far it is, no guard can say.
bool is_c_iterator(PyObject* x);
// A module that sys.modules has under its name.
bool is_imported(PyObject* module);
// A Python function marked by torch.compiler.disable or vesta.disable.
bool is_disabled(PyObject* function);
// It says whether it is being compiled: vesta.is_compiling and its like.
bool says_is_compiling(PyObject* function);
// It gives its first argument as something that is compiled where it is called; in a trace, that argument.
bool gives_compiled(PyObject* function);
// torch.compiler.is_dynamo_compiling.
bool says_is_dynamo_compiling(PyObject* function);
// torch._dynamo.graph_break and its like, which are called for the break alone.
bool asks_for_a_break(PyObject* function);
// By disable(recursive=False): the function whose frame is left alone, not what it calls; borrowed, or nullptr.
PyObject* disabled_alone(PyObject* function);
// A key for whose hash or comparison Python code of the program runs.
bool is_hashed_by_program(PyObject* x);
// The same, whoever's code it is.
bool is_hashed_by_python(PyObject* x);
// A dict or set that has such keys.
bool has_keys_of_program(PyObject* container);
bool has_keys_of_python(PyObject* container);
// Numbers, texts, tensors whose class has no functions of its own, and short tuples and lists of those: no Python code
// of anyone's is behind them.
bool is_data(PyObject* x, int depth = 2);
// "math.sqrt", "list.append", ...
std::string name_of_callable(PyObject* callable);

}  // namespace vesta::capture
