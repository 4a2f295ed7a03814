// The functions written in C that a trace knows: what a call of one reads and writes. A call of any other C function is
// a graph break that names it.
//
// A function is a row in the file of its family (`rows.h`): its module and name, its effect, a handler where the effect
// does not say all, and the versions that have it. The first lookup of a function finds its row by its name, later ones
// find it by pointer. Lookups run no Python code of the program, and leave no error set. This folder includes nothing
// of the tracer: handlers are declared here
// (`call_handlers.h`) and written in tracer/calls.
#pragma once

#include <Python.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/python/breaks/breaks.h"

namespace vesta::capture {

class Trace;
struct Call;

enum class Effect : unsigned char {
  Unknown,       // nobody looked at it: a graph break
  Reads,         // reads its arguments and what containers among them hold; returns a new object or one of theirs
  ReadsNumbers,  // the same, and takes symbolic integers as they are
  ReadsState,    // reads the attributes of its first argument as well
  Tensors,       // an operator on tensors: PyTorch's dispatcher shows the trace what it does
  WritesSelf,    // changes its first argument
  Appends,       // adds its other arguments to the end of its first one, a list
  Extends,       // adds the items of its second argument to the end of its first one, a list
  Torch,         // reads or sets state of torch that TorchState holds
  Refused,       // a graph break for a reason of its own
};

// What a function compares by equality or looks up by hash; the comparison is then a fact of the trace.
enum class Compares : unsigned char {
  Nothing,
  Items,      // its arguments with the items of its first argument
  Arguments,  // its arguments
};

// What a call does where its effect does not say all: a new reference; nullptr with an error set or after the trace has
// ended; std::nullopt: the handler does not cover these arguments, and the call does what the effect says.
using CallHandler = std::optional<PyObject*> (*)(Trace&, const Call&);

struct Callable {
  Effect effect = Effect::Unknown;
  Compares compares = Compares::Nothing;
  bool passable = true;  // C code that gets the function as an argument may call it, without the handler
  // Takes at most two numbers and returns one: with a symbolic scalar, each compiled call calls it again.
  bool of_numbers = false;
  CallHandler handler = nullptr;
  Break refusal = Break::UntraceableFunction;  // of a refused function
  const char* reason = nullptr;                // "which ...", for its text

  constexpr Callable() = default;
  constexpr Callable(Effect e) : effect(e) {}  // a row's effect is all that most functions need
  constexpr Callable(Effect e, Compares c) : effect(e), compares(c) {}
  constexpr Callable(Effect e, CallHandler h) : effect(e), passable(false), handler(h) {}
  constexpr Callable and_passable() const {
    Callable c = *this;
    c.passable = true;
    return c;
  }
  // What the handler does not cover is refused, or done, as the row says.
  constexpr Callable handled_by(CallHandler h) const {
    Callable c = *this;
    c.handler = h;
    return c;
  }
  constexpr Callable comparing(Compares what) const {
    Callable c = *this;
    c.compares = what;
    return c;
  }
  constexpr Callable on_numbers() const {
    Callable c = *this;
    c.of_numbers = true;
    return c;
  }
  bool reads() const {
    return effect == Effect::Reads || effect == Effect::ReadsNumbers || effect == Effect::ReadsState;
  }
};

// `callable`: a builtin function or method, a method or slot descriptor, a getter, a class, an object that is called.
Callable known_callable(PyObject* callable);
// Objects of exactly this class behave as their C code says, which reads nothing but the object itself.
bool is_known_class(PyTypeObject* type);
// A class that inherits a special method from a function which writes, such as `__lshift__ = list.append`.
bool writes_by_operators(PyTypeObject* type);
// An operator as torch.ops has it: what an OpOverload or its packet calls.
bool is_torch_operator(PyObject* callable);
// "math.sqrt", "list.append", ...
std::string name_of_callable(PyObject* callable);

}  // namespace vesta::capture
